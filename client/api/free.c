/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that free: check arguments, and wait where waiting is needed. */
#include <stdbool.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/api/heap_free.h"
#include "client/pool/idle_marking.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/before_wait.h"
#include "client/watch/trace.h"
#include "driver/context.h"

/* The order of a capturing stream is that of its graph. */
static int look_at_stream(struct gpumem_client *client, void *stream, struct stream_mark *ret_mark)
{
        struct capture capture;
        int r = stream_look(&client->cuda, stream, ret_mark);

        return r == GPUMEM_E_UNSUPPORTED ? capture_look(&client->cuda, stream, ret_mark, &capture)
                                         : r;
}

/* The driver knows memory that it has made itself, even if that was requested without a context. */
static bool is_always_known(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM &&
               pool->memory.cuda;
}

/* Also finds the stream's context if other streams of it may use the memory. */
static int wait_for_other(struct gpumem_client *client, void *stream, uint64_t *ret_context)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        int r = stream_synchronize(&client->cuda, stream);

        if (!r && streams_forgive(&client->streams))
                r = stream_find_context(&client->cuda, stream, ret_context);
        return r;
}

static int wait_for_context(struct gpumem_client *client, uint64_t context)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        return stream_synchronize_context(&client->cuda, context);
}

/* Defers a free in a capturing stream, whose order is not known yet. */
static int defer(struct gpumem_client *client, const struct stream_heap *heap, const void *pointer,
                 void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        int r = pool_find(heap->pool, pointer);

        return r ? r : graph_memory_defer(&client->graph_memory, pointer, stream);
}

static void end_deferred(struct gpumem_client *client, void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        client_free_captured(client, stream);
}

/* In a capturing stream, defers any free but that of device memory of the same capture and stream, which is allocated
 * again there. Pinned memory is always deferred: the CPU has written what a graph reads there, and the next owner's
 * CPU waits for no graph. */
static bool is_deferred(const struct stream_heap *heap, const struct stream_mark *mark)
{
        return mark->scope & CAPTURE_SCOPE &&
               (!pool_has_mark(heap, mark) || heap->pool->memory.kind == GPUMEM_PINNED);
}

/* The memory goes back to the heap of its own stream. Device memory that is freed in that stream's order needs no
 * wait. Any other free does, and pinned memory always: its next owner writes with the CPU, which no stream holds up.
 * The handle alone does not identify the stream. If the stream was destroyed, another one may have its handle, even
 * in another context. A call that looks for idle blocks would not wait for that one's work. */
static int free_in_order(struct gpumem_client *client, struct stream_heap *heap,
                         struct heap_block *block, void *pointer, void *stream)
{
        struct stream_key order = pool_order_of(heap, pointer);
        struct stream_use_end how = {
                .pointer = pointer, .n_uses = &block->n_uses, .contexts = {order.context}};
        struct stream_mark mark;
        bool is_own = false, is_ordered;
        int r;

        if (!order.context && !is_always_known(heap->pool))
                return is_used(block) ? free_or_defer(client, heap, &how, NULL)
                                      : free_in(heap, pointer, NULL);
        r = look_at_stream(client, stream, &mark);
        if (!r)
                is_own = pool_has_mark(heap, &mark);
        if (!r && is_deferred(heap, &mark))
                return defer(client, heap, pointer, stream);
        is_ordered = is_own && heap->pool->memory.kind == GPUMEM_DEVICE;
        /* The memory was made without a context, and the thread that frees it has none. */
        if (r == GPUMEM_E_NO_CONTEXT && !order.context)
                r = 0;
        else if (r == GPUMEM_E_NO_CONTEXT && order.id == POOL_ANY_STREAM)
                r = wait_for_context(client, order.context);
        else if (!r && !is_ordered)
                r = wait_for_other(client, stream, &how.contexts[1]);
        if (r)
                return r;
        if (is_ordered && !is_used(block))
                return free_in(heap, pointer, &stream);
        /* Memory of a graph is ordered by its capture alone. */
        if (is_ordered && pool_is_captured(heap))
                how.contexts[0] = 0;
        else if (is_ordered) {
                how.own_stream = &stream;
                how.own = (struct stream_key){.context = order.context, .id = mark.id};
        }
        return free_or_defer(client, heap, &how, is_own ? &stream : NULL);
}

/* The fast path of most frees: device memory in the order of its own stream, with no other stream that uses it. In
 * any other case the slow path finds out again. */
static ALWAYS_INLINE int free_hit(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct stream_heap *heap;
        struct heap_block *block = block_of(client, pointer, &heap);
        struct stream_mark mark;

        if (!heap || heap->pool->memory.kind != GPUMEM_DEVICE || !heap->key.context ||
            is_used(block) || !capture_frees_none(&client->capture_frees))
                return GPUMEM_E_REFUSED;
        heap_prefetch(heap_in(heap));
        if (look_at_stream(client, stream, &mark) || !pool_has_mark(heap, &mark))
                return GPUMEM_E_REFUSED;
        return free_found(heap, block, pointer, &stream, LOOK_MAY_WAIT);
}

static NOINLINE int free_slow(struct gpumem_client *client, void *pointer, void *stream)
{
        struct stream_heap *heap;
        struct heap_block *block;

        before_wait_begin();
        if (!capture_frees_none(&client->capture_frees))
                end_deferred(client, stream);
        if (client_has_deferred(client, pointer))
                return GPUMEM_E_NOT_OURS;
        block = block_of(client, pointer, &heap);
        return heap ? free_in_order(client, heap, block, pointer, stream)
                    : client_free_shared(client, pointer, stream);
}

/* A free while calls are recorded, debugged or counted. */
struct watched {
        const void *pointer;
        struct debugged *debugged;
        struct tagged *tagged;
};

static struct watched begin_watched(struct gpumem_client *client, void *pointer,
                                    enum debug_order order, void *stream)
{
        struct watched watched = {.pointer = pointer};

        if (debug_is_on(&client->debug))
                watched.debugged = debug_begin_free(&client->debug, pointer, order, stream);
        if (tags_are_on())
                watched.tagged = tags_begin_free(&client->tags, pointer);
        return watched;
}

static int end_watched(struct gpumem_client *client, const struct watched *watched, int r)
{
        tags_end_free(&client->tags, watched->tagged, r);
        debug_end_free(&client->debug, watched->debugged, r);
        if (r == GPUMEM_E_NOT_OURS)
                debug_tell_wrong_free(&client->debug, watched->pointer);
        if (trace_is_on() && !r)
                trace_free(watched->pointer);
        return r;
}

static COLD int free_watched(struct gpumem_client *client, void *pointer, void *stream)
{
        struct watched watched;
        int r;

        before_wait_begin();
        watched = begin_watched(client, pointer, DEBUG_IN_STREAM, stream);
        r = free_hit(client, pointer, stream);
        if (r == GPUMEM_E_REFUSED)
                r = free_slow(client, pointer, stream);
        r = end_watched(client, &watched, r);
        client_settle(client);
        return r;
}

FLAT int gpumem_free(struct gpumem_client *client, void *pointer, void *stream)
{
        int r;

        if (!pointer)
                return 0;
        r = client_enter_present(&client);
        if (r)
                return r;
        if (switches_any())
                return free_watched(client, pointer, stream);
        r = free_hit(client, pointer, stream);
        if (r == GPUMEM_E_REFUSED)
                r = free_slow(client, pointer, stream);
        return client_settled(client, r);
}

/* Waits for all work on devices, then frees. */
static int free_after_all(struct gpumem_client *client, struct stream_heap *heap, void *pointer)
{
        struct stream_key order = pool_order_of(heap, pointer);
        int r = client->has_cuda ? stream_synchronize_contexts(&client->cuda, order.context) : 0;

        return r ? r : free_in(heap, pointer, NULL);
}

static int free_sync(struct gpumem_client *client, void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct stream_heap *heap = heap_of(client, pointer);
        int r = 0;

        before_wait_begin();
        if (client_has_deferred(client, pointer))
                r = GPUMEM_E_NOT_OURS;
        else
                r = stream_uses_wait(&client->uses, &client->cuda, pointer);
        if (!r && heap)
                r = free_after_all(client, heap, pointer);
        else if (!r)
                r = client_free_shared_sync(client, pointer);
        return r;
}

static bool is_of_device(const struct stream_heap *heap)
{
        return heap && heap->key.context && heap->pool->memory.kind == GPUMEM_DEVICE;
}

/* Where a free can be recorded, though its caller has no stream: in a default stream, which lives as long as its context;
 * or in the context. NULL: the stream may be destroyed. */
static void *const *living_stream(const struct stream_heap *heap)
{
        static void *const legacy = CU_STREAM_LEGACY;

        return heap->is_legacy || heap->pool->streams->way == FENCE_CONTEXT ? &legacy : NULL;
}

/* The stream's own heap can use the memory again at once. `stream`: where the free may be recorded. */
static int free_to_own(struct stream_heap *heap, const void *pointer, void *const *stream)
{
        uint64_t generation = heap->generation;
        int r = pool_give(heap, pointer, POOL_USE_ORDERED);

        if (pool_is_captured(heap))
                look_at_captured(heap->pool);
        else if (r == POOL_LOOK)
                look_at_heap(heap, generation, stream, LOOK_MAY_WAIT);
        return r == POOL_LOOK ? 0 : r;
}

/* If the stream may be destroyed, the memory leaves the heap after the next record there, or after a wait for the whole
 * context. */
static int free_unrecorded(struct stream_heap *heap, const void *pointer)
{
        return free_to_own(heap, pointer,
                           idle_marking_is_on(heap->pool) ? living_stream(heap) : NULL);
}

static uint64_t n_freed_bytes(struct stream_heap *heap)
{
        uint64_t n_bytes;

        spin_lock(&heap_in(heap)->lock);
        n_bytes = heap_in(heap)->n_freed_bytes;
        spin_unlock(&heap_in(heap)->lock);
        return n_bytes;
}

void client_record_frees(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct stream_heap *heap = heap_of(client, pointer);

        if (is_of_device(heap) && !pool_is_captured(heap) && idle_marking_is_on(heap->pool) &&
            n_freed_bytes(heap) >= HEAP_BLOCK_UNIT)
                look_at_heap(heap, heap->generation, &stream, LOOK_MAY_WAIT);
}

/* A free in the memory's own stream, which the caller does not name, so that another thread may begin or end a capture
 * there at any time. The driver is asked only what is safe then, or under the gate; see docs/driver-facts.md. */
struct own_free {
        struct gpumem_client *client;
        struct stream_heap *heap;
        struct heap_block *block;
        void *pointer;
        void *stream;
        uint64_t generation;
        bool looks; /* at the heap, which had that generation, once the gate is left */
};

static bool find_own_stream(struct gpumem_client *client, const struct stream_heap *heap,
                            void **ret_stream)
{
        return streams_find(&client->streams, &heap->key, ret_stream) ||
               stream_handles_find(&client->handles, &heap->key, ret_stream);
}

static void end_deferred_of(struct gpumem_client *client, void *stream,
                            const struct stream_key *key)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        client_free_captured_of(client, stream, key);
}

/* With a cache size, a look at what became empty waits: for the whole context, and outside of the gate, so that no
 * thread that announces a capture waits for it. */
static bool waits_to_look(const struct own_free *own)
{
        return !idle_marking_is_on(own->heap->pool) &&
               !streams_cover(&own->client->streams, &own->heap->key);
}

static int give_to_own(struct own_free *own)
{
        int r;

        if (!waits_to_look(own))
                return free_to_own(own->heap, own->pointer, &own->stream);
        own->generation = own->heap->generation;
        r = pool_give(own->heap, own->pointer, POOL_USE_ORDERED);
        own->looks = r == POOL_LOOK && !pool_is_captured(own->heap);
        return r == POOL_LOOK ? 0 : r;
}

static int free_in_own(const struct cuda *cuda, void *argument)
{
        struct own_free *own = argument;
        struct stream_key key = own->heap->key;
        struct stream_use_end how = {.pointer = own->pointer,
                                     .n_uses = &own->block->n_uses,
                                     .contexts = {key.context},
                                     .own = key,
                                     .own_stream = &own->stream};

        (void)cuda;
        before_wait_begin();
        if (!capture_frees_none(&own->client->capture_frees))
                end_deferred_of(own->client, own->stream, &key);
        return is_used(own->block) ? free_or_defer(own->client, own->heap, &how, &own->stream)
                                   : give_to_own(own);
}

/* The handle of a default stream is valid only in its context. */
static int free_in_own_stream(struct own_free *own)
{
        const struct cuda *cuda = &own->client->cuda;

        if (stream_is_created(own->stream))
                return free_in_own(cuda, own);
        return context_run(cuda, own->heap->key.context, free_in_own, own);
}

/* GPUMEM_E_REFUSED: the free is to be made outside, since the stream is registered, or a default stream, so that marks in
 * it enter the gate themselves. A mark that cannot, since a thread waits to announce a capture, may leave the free to
 * wait for work, for which that thread must not wait. */
static int free_inside(struct own_free *own)
{
        struct gpumem_client *client = own->client;
        int r = stream_is_created(own->stream) ? stream_check(&client->cuda, own->stream) : 0;

        if (r == GPUMEM_E_UNSUPPORTED)
                return defer(client, own->heap, own->pointer, own->stream);
        if (r)
                return r;
        return stream_is_legacy(own->stream) || streams_cover(&client->streams, &own->heap->key)
                       ? GPUMEM_E_REFUSED
                       : free_in_own_stream(own);
}

static int free_by_order(struct gpumem_client *client, void *pointer)
{
        struct own_free own = {.client = client, .pointer = pointer};
        int r;

        own.block = block_of(client, pointer, &own.heap);
        if (client_has_deferred(client, pointer))
                return GPUMEM_E_NOT_OURS;
        if (!is_of_device(own.heap))
                return free_sync(client, pointer);
        if (!find_own_stream(client, own.heap, &own.stream) ||
            !capture_gate_enter(&client->streams.gate)) {
                if (is_used(own.block) || !idle_marking_is_on(own.heap->pool))
                        before_wait_begin();
                return is_used(own.block) ? free_sync(client, pointer)
                                          : free_unrecorded(own.heap, pointer);
        }
        r = free_inside(&own);
        capture_gate_leave(&client->streams.gate);
        if (own.looks)
                look_at_heap(own.heap, own.generation, NULL, LOOK_MAY_WAIT);
        return r == GPUMEM_E_REFUSED ? free_in_own_stream(&own) : r;
}

/* A registered stream is covered by the rounds of its context, so the free can wait for a round. */
static int free_later(struct gpumem_client *client, void *pointer)
{
        struct stream_heap *heap;
        struct heap_block *block = block_of(client, pointer, &heap);
        struct stream_use_end how = {.pointer = pointer};

        if (client_has_deferred(client, pointer))
                return GPUMEM_E_NOT_OURS;
        if (!is_of_device(heap) || pool_is_captured(heap) ||
            !streams_cover(&client->streams, &heap->key))
                return free_sync(client, pointer);
        how.n_uses = &block->n_uses;
        how.contexts[0] = heap->key.context;
        return free_or_defer(client, heap, &how, NULL);
}

typedef int free_call(struct gpumem_client *client, void *pointer);

static COLD int free_without_stream_watched(struct gpumem_client *client, void *pointer,
                                            free_call *call)
{
        struct watched watched;

        before_wait_begin();
        watched = begin_watched(client, pointer, DEBUG_AFTER_ALL, NULL);
        return end_watched(client, &watched, call(client, pointer));
}

static int free_without_stream(struct gpumem_client *client, void *pointer, free_call *call)
{
        int r;

        if (!pointer)
                return 0;
        r = client_enter_present(&client);
        if (r)
                return r;
        r = switches_any() ? free_without_stream_watched(client, pointer, call)
                           : call(client, pointer);
        client_settle(client);
        return r;
}

int gpumem_free_sync(struct gpumem_client *client, void *pointer)
{
        return free_without_stream(client, pointer, free_sync);
}

int gpumem_free_in_order(struct gpumem_client *client, void *pointer)
{
        return free_without_stream(client, pointer, free_by_order);
}

int gpumem_free_later(struct gpumem_client *client, void *pointer)
{
        return free_without_stream(client, pointer, free_later);
}

static bool is_own_stream(const struct stream_heap *heap, const struct stream_key *key)
{
        return heap && heap->key.context == key->context && heap->key.id == key->id &&
               heap->key.capture == key->capture;
}

/* Asks for a deferred free first, since it may end between the two questions. */
static bool is_allocation(struct gpumem_client *client, const void *pointer)
{
        struct shared_alloc_info info;

        if (client_has_deferred(client, pointer))
                return false;
        for (uint32_t i = 0; i < client->n_pools; i++) {
                if (pool_find(&client->pools[i], pointer) == 0 ||
                    shared_alloc_find(&client->pools[i], pointer, &info) == 0)
                        return true;
        }
        return false;
}

int gpumem_record_use(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct stream_heap *heap;
        struct heap_block *block;
        struct stream_key key;
        int ordinal, r = client_enter_present(&client);

        if (r)
                return r;
        client_settle_marks(client);
        if (!is_allocation(client, pointer))
                return GPUMEM_E_NOT_OURS;
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = stream_identify(&client->cuda, stream, &key, &ordinal);
        block = block_of(client, pointer, &heap);
        if (r || is_own_stream(heap, &key))
                return r;
        /* The handle means another stream in the thread that frees or marks. */
        if (stream == CU_STREAM_PER_THREAD)
                return GPUMEM_E_UNSUPPORTED;
        return block ? stream_uses_add(&client->uses, pointer, &block->n_uses, stream, &key)
                     : GPUMEM_E_NOT_OURS;
}
