/* SPDX-License-Identifier: Apache-2.0 */
/* The calls about streams: registered streams, announced captures, one that waits for another, and handles of streams. */
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/api/heap_free.h"
#include "client/runtime/stacks.h"
#include "driver/context.h"
#include "driver/event.h"
#include "driver/stream.h"

int gpumem_stream_register(struct gpumem_client *client, void *stream)
{
        struct stream_key key;
        int r = client_enter_stream(&client, stream, &key);

        if (!r)
                r = streams_register(&client->streams, stream, &key);
        if (!r)
                client_settle(client);
        return r;
}

/* A context's default stream captures nothing; a thread's own may. */
static bool captures(const struct cuda *cuda, void *stream)
{
        return !stream_is_legacy(stream) && stream_check(cuda, stream) == GPUMEM_E_UNSUPPORTED;
}

int gpumem_before_capture(struct gpumem_client *client)
{
        int r = client_enter(&client);

        if (!r)
                capture_gate_close(&client->streams.gate);
        return r;
}

int gpumem_after_capture(struct gpumem_client *client)
{
        int r = client_enter_present(&client);

        if (r)
                return r == GPUMEM_E_NOT_OURS ? GPUMEM_E_NO_CAPTURE : r;
        if (!capture_gate_open(&client->streams.gate))
                return GPUMEM_E_NO_CAPTURE;
        if (!capture_gate_is_closed(&client->streams.gate))
                client_record_all_frees(client);
        client_settle(client);
        return 0;
}

/* A stream that captures cannot wait for work outside of graphs: the driver would end its capture. */
int gpumem_stream_wait(struct gpumem_client *client, void *stream, void *producer)
{
        int r = client_enter(&client);

        if (r)
                return r;
        client_settle_marks(client);
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        if (stream == producer)
                return 0;
        if (captures(&client->cuda, stream) && !captures(&client->cuda, producer))
                return GPUMEM_E_CAPTURES;
        if (stream_is_locked(&client->cuda, stream) || stream_is_locked(&client->cuda, producer))
                return GPUMEM_E_CAPTURES;
        return event_order(&client->cuda, stream, producer);
}

static int unregister(struct gpumem_client *client, const struct stream_key *key)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        return streams_unregister(&client->streams, key);
}

int gpumem_stream_unregister(struct gpumem_client *client, void *stream)
{
        struct stream_key key;
        int r = client_enter_present(&client);

        if (r)
                return r == GPUMEM_E_NOT_OURS ? GPUMEM_E_NOT_REGISTERED : r;
        r = client_enter_stream(&client, stream, &key);
        if (!r)
                r = unregister(client, &key);
        if (!r)
                client_settle(client);
        return r;
}

int gpumem_stream_open(struct gpumem_client *client, void *stream,
                       struct gpumem_stream **ret_stream)
{
        struct stream_key key;
        int r = client_enter_stream(&client, stream, &key);

        if (!r)
                r = stream_handles_open(&client->handles, client, stream, &key, ret_stream);
        return r;
}

static bool keeps_stacks(const struct gpumem_client *client)
{
        return client->debug.checks & DEBUG_STACKS;
}

/* Tells of a call with a closed handle. */
static COLD int refuse_closed(const struct gpumem_stream *handle)
{
        struct stack here;

        if (!keeps_stacks(handle->client))
                return GPUMEM_E_CLOSED;
        stack_take(&here);
        log_error("GPUMEM_DEBUG: stacks: the handle of a stream is used after its last close");
        stack_tell("GPUMEM_DEBUG: stacks: used now by", &here);
        stack_tell("GPUMEM_DEBUG: stacks: closed before by", &handle->closed_by);
        return GPUMEM_E_CLOSED;
}

static int enter(const struct gpumem_stream *handle)
{
        int r = fork_guard_check(&handle->client->fork_guard);

        if (r)
                return r;
        return atomic_load(&handle->n_open) ? 0 : refuse_closed(handle);
}

/* What is left to the calls without a handle. */
struct plain_call {
        struct gpumem_stream *handle;
        uint64_t n_bytes; /* of an allocation */
        void *pointer;
};

/* The CUDA handle of a default stream is valid only in its context. */
static int run_in_own(struct plain_call *call, int (*run)(const struct cuda *cuda, void *argument))
{
        const struct gpumem_stream *handle = call->handle;

        if (stream_is_created(handle->stream))
                return run(&handle->client->cuda, call);
        return context_run(&handle->client->cuda, handle->key.context, run, call);
}

static int alloc_plain(const struct cuda *cuda, void *argument)
{
        struct plain_call *call = argument;
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .stream = call->handle->stream,
                                               .n_bytes = call->n_bytes};

        (void)cuda;
        return gpumem_alloc(call->handle->client, &request, &call->pointer);
}

void stream_handle_note(struct gpumem_stream *handle)
{
        atomic_store(&handle->heap, recent_heaps_find(&handle->client->recent, &handle->mark));
}

static NOINLINE int alloc_slow(struct gpumem_stream *handle, uint64_t n_bytes, void **ret_pointer)
{
        struct plain_call call = {.handle = handle, .n_bytes = n_bytes};
        int r = enter(handle);

        if (!r)
                r = run_in_own(&call, alloc_plain);
        if (r)
                return r;
        *ret_pointer = call.pointer;
        stream_handle_note(handle);
        return 0;
}

/* A default stream captures nothing. */
static inline bool may_capture(const struct gpumem_stream *handle)
{
        return stream_is_created(handle->stream) &&
               stream_check(&handle->client->cuda, handle->stream);
}

/* May the call do without what the plain calls do besides? */
static inline bool is_simple(const struct gpumem_stream *handle)
{
        return !switches_any() && !fork_guard_check(&handle->client->fork_guard);
}

static ALWAYS_INLINE int alloc_hit(struct gpumem_stream *handle, uint64_t n_bytes,
                                   void **ret_pointer)
{
        struct stream_heap *heap = atomic_load_explicit(&handle->heap, memory_order_acquire);

        if (!heap || !is_simple(handle))
                return GPUMEM_E_REFUSED;
        pool_prefetch(heap, n_bytes);
        if (may_capture(handle))
                return GPUMEM_E_REFUSED;
        return pool_hit(heap, &handle->mark, n_bytes, ret_pointer);
}

FLAT int stream_handle_hit(struct gpumem_stream *handle, uint64_t n_bytes, void **ret_pointer)
{
        if (alloc_hit(handle, n_bytes, ret_pointer))
                return GPUMEM_E_REFUSED;
        return client_settled(handle->client, 0);
}

FLAT int gpumem_stream_alloc(struct gpumem_stream *stream, uint64_t n_bytes, void **ret_pointer)
{
        if (__builtin_expect(alloc_hit(stream, n_bytes, ret_pointer), 0))
                return alloc_slow(stream, n_bytes, ret_pointer);
        return client_settled(stream->client, 0);
}

static int free_plain(const struct cuda *cuda, void *argument)
{
        const struct plain_call *call = argument;

        (void)cuda;
        return gpumem_free(call->handle->client, call->pointer, call->handle->stream);
}

static NOINLINE int free_slow(struct gpumem_stream *handle, void *pointer)
{
        struct plain_call call = {.handle = handle, .pointer = pointer};
        int r = enter(handle);

        return r ? r : run_in_own(&call, free_plain);
}

/* A look at what became empty in a heap of the stream. */
struct own_look {
        struct plain_call call;
        struct stream_heap *heap;
        uint64_t generation;
};

/* Nothing may wait for a stream that captures: that would end the capture. */
static int look(const struct cuda *cuda, void *argument)
{
        const struct own_look *look = argument;
        struct gpumem_stream *handle = look->call.handle;

        (void)cuda;
        look_at_heap(look->heap, look->generation, may_capture(handle) ? NULL : &handle->stream,
                     LOOK_MAY_WAIT);
        return 0;
}

static COLD void look_at_own(struct gpumem_stream *handle, struct stream_heap *heap,
                             uint64_t generation)
{
        struct own_look own = {{.handle = handle}, heap, generation};

        if (!pool_is_captured(heap))
                (void)run_in_own(&own.call, look);
}

/* Memory of the stream's own heap, outside of captures, goes back there whether or not the stream captures now: what
 * allocates there asks. */
static ALWAYS_INLINE int free_hit(struct gpumem_stream *handle, const void *pointer)
{
        struct stream_heap *heap = atomic_load_explicit(&handle->heap, memory_order_acquire);
        struct heap_block *block;
        uint64_t generation;
        int r;

        if (!heap || !is_simple(handle))
                return GPUMEM_E_REFUSED;
        heap_prefetch(heap_in(heap));
        block = pool_block_of(heap->pool, pointer);
        if (!block || block->heap != heap_in(heap) || is_used(block) ||
            !capture_frees_none(&handle->client->capture_frees) ||
            !pool_has_mark(heap, &handle->mark))
                return GPUMEM_E_REFUSED;
        generation = heap->generation;
        r = pool_give_in(heap, block, pointer, POOL_USE_ORDERED);
        if (r != POOL_LOOK)
                return r;
        look_at_own(handle, heap, generation);
        return 0;
}

FLAT int gpumem_stream_free(struct gpumem_stream *stream, void *pointer)
{
        int r;

        if (!pointer)
                return 0;
        r = free_hit(stream, pointer);
        if (r == GPUMEM_E_REFUSED)
                return free_slow(stream, pointer);
        return client_settled(stream->client, r);
}

FLAT int stream_handle_give(struct gpumem_stream *handle, const void *pointer)
{
        int r = free_hit(handle, pointer);

        return r == GPUMEM_E_REFUSED ? r : client_settled(handle->client, r);
}

/* The stream is still alive, so frees in it can be marked for the last time. */
static void leave_heap(struct gpumem_stream *handle, struct stream_heap *heap)
{
        if (heap && pool_has_mark(heap, &handle->mark))
                look_at_own(handle, heap, heap->generation);
}

int gpumem_stream_close(struct gpumem_stream *stream)
{
        struct gpumem_client *client;
        struct stream_heap *heap;
        struct stack here;
        uint32_t n_open;
        int r;

        if (!stream)
                return 0;
        r = enter(stream);
        if (r)
                return r;
        client = stream->client;
        heap = atomic_load(&stream->heap);
        if (keeps_stacks(client))
                stack_take(&here);
        r = stream_handles_close(&client->handles, stream, keeps_stacks(client) ? &here : NULL,
                                 &n_open);
        if (r)
                return r;
        if (!n_open)
                leave_heap(stream, heap);
        client_settle(client);
        return 0;
}
