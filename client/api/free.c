/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of allocations: arguments are checked here, and what must be waited for is waited for. */
#include <stdbool.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/pool/idle_marking.h"
#include "client/pool/shared_alloc.h"
#include "client/pool/trim.h"
#include "client/watch/trace.h"

/* The block that a pointer lies in, NULL for none of this client's, and the heap that it is in; NULL: it is one
 * allocation. */
static ALWAYS_INLINE struct heap_block *block_of(struct gpumem_client *client, const void *pointer,
                                                 struct stream_heap **ret_heap)
{
        struct heap_block *block = NULL;

        *ret_heap = NULL;
        for (uint32_t i = 0; i < client->n_pools; i++) {
                block = pool_block_of(&client->pools[i], pointer);
                if (block) {
                        *ret_heap = pool_heap_of_block(&client->pools[i], block);
                        break;
                }
        }
        return block;
}

static struct stream_heap *heap_of(struct gpumem_client *client, const void *pointer)
{
        struct stream_heap *heap;

        (void)block_of(client, pointer, &heap);
        return heap;
}

/* Other streams use allocations of the block, or did until they were freed. */
static bool is_used(const struct heap_block *block)
{
        return atomic_load_explicit(&block->n_uses, memory_order_relaxed) != 0;
}

/* The order of a stream that captures is the graph's. */
static int look_at_stream(struct gpumem_client *client, void *stream, struct stream_mark *ret_mark)
{
        struct capture capture;
        int r = stream_look(&client->cuda, stream, ret_mark);

        return r == GPUMEM_E_UNSUPPORTED ? capture_look(&client->cuda, stream, ret_mark, &capture)
                                         : r;
}

static COLD void look(struct stream_heap *heap, uint64_t generation, void *const *own_stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(heap->pool->memory.cuda);

        if (idle_marking_is_on(heap->pool))
                idle_marking_note(heap, generation, own_stream);
        else
                trim_look(heap, generation, own_stream);
}

/* No work says when a graph's memory is idle; but the graph may be gone. */
static COLD void look_at_captured(struct pool *pool)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(pool->memory.cuda);

        if (!service_thread_wake(pool->service) && idle_marking_is_on(pool))
                (void)idle_marking_look(pool, IDLE_MARKING_WHEN_DUE);
}

/* Its last use is ordered by `own_stream`, the heap's; or is over, where that is NULL. */
static int free_in(struct stream_heap *heap, const void *pointer, void *const *own_stream)
{
        uint64_t generation = heap->generation;
        int r = pool_give(heap, pointer, own_stream ? POOL_USE_ORDERED : POOL_USE_OVER);

        if (pool_is_captured(heap) && (!r || r == POOL_LOOK)) {
                if (!own_stream)
                        look_at_captured(heap->pool);
                return 0;
        }
        if (r != POOL_LOOK)
                return r;
        look(heap, generation, own_stream);
        return 0;
}

/* Frees it in its heap, once all have come as far that may use it. own_stream: as in free_in. */
static COLD int free_or_defer(struct gpumem_client *client, struct stream_heap *heap,
                              const struct stream_use_end *how, void *const *own_stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        enum stream_uses_end end;
        int r;

        r = pool_find(heap->pool, how->pointer);
        if (!r)
                r = stream_uses_defer(&client->uses, &client->streams, how, &end);
        if (r)
                return r;
        if (end != STREAM_USES_DEFERRED)
                return free_in(heap, how->pointer, end == STREAM_USES_NONE ? own_stream : NULL);
        if (!service_thread_wake(&client->service))
                client_end_deferred(client, false);
        return 0;
}

static void free_over_ones(struct gpumem_client *client, uint32_t n_looks_max)
{
        const void *pointer;

        streams_poll(&client->streams);
        while ((pointer = stream_uses_next_over(&client->uses, &client->streams, n_looks_max))) {
                struct stream_heap *heap = heap_of(client, pointer);

                if (heap)
                        (void)free_in(heap, pointer, NULL);
        }
}

void client_end_deferred(struct gpumem_client *client, bool wait)
{
        if (stream_uses_none_deferred(&client->uses))
                return;
        free_over_ones(client, wait ? STREAM_USES_LOOKS_ALL : STREAM_USES_LOOKS_MAX);
        if (!wait || stream_uses_none_deferred(&client->uses))
                return;
        stream_uses_wait_deferred(&client->uses, &client->cuda);
        free_over_ones(client, STREAM_USES_LOOKS_ALL);
}

bool client_has_deferred(struct gpumem_client *client, const void *pointer)
{
        struct stream_heap *heap;
        const struct heap_block *block = block_of(client, pointer, &heap);

        return (block && is_used(block) && stream_uses_has_deferred(&client->uses, pointer)) ||
               (!deferred_free_none(&client->deferred) &&
                deferred_free_has(&client->deferred, pointer));
}

void client_catch_up(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        streams_catch_up(&client->streams);
        if (atomic_load(&client->uses.n_unmarked))
                stream_uses_mark(&client->uses, &client->cuda);
}

/* Memory that the driver makes is known to it, whether it was asked for with a context or not. */
static bool is_always_known(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM &&
               pool->memory.cuda;
}

/* Streams of its context may use the memory, too. */
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

/* Frees an allocation of a heap, after all that is in the stream now, which is another one than the memory's own. 0 too
 * if it is none any more: a program may have freed it twice at once. */
static int free_ordered(struct gpumem_client *client, const void *pointer, void *stream,
                        const struct stream_key *key)
{
        struct stream_heap *heap;
        struct heap_block *block = block_of(client, pointer, &heap);
        struct stream_use_end how = {
                .pointer = pointer, .contexts = {key->context}, .own = *key, .own_stream = &stream};
        int r;

        if (!heap || pool_find(heap->pool, pointer))
                return 0;
        how.n_uses = &block->n_uses;
        how.contexts[1] = pool_order_of(heap, pointer).context;
        r = stream_uses_add(&client->uses, pointer, how.n_uses, stream, key);
        return r ? r : free_or_defer(client, heap, &how, NULL);
}

/* The same, once all of its work is over but in streams that were recorded. */
static int free_over(struct gpumem_client *client, const void *pointer)
{
        int r = stream_uses_wait(&client->uses, &client->cuda, pointer);
        struct stream_heap *heap = heap_of(client, pointer);

        return r || !heap ? r : free_in(heap, pointer, NULL);
}

/* By its handle: the driver does not tell the id of a stream that captures. */
void client_free_captured(struct gpumem_client *client, void *stream)
{
        struct deferred_free *deferred;
        struct stream_key key, by_handle;
        bool more = true;
        int ordinal;

        if (deferred_free_none(&client->deferred) ||
            stream_identify(&client->cuda, stream, &key, &ordinal))
                return;
        by_handle = key;
        by_handle.id = stream_captured_id(stream);
        while (more && (deferred = deferred_free_take_of(&client->deferred, &by_handle)))
                more = deferred_free_end(&client->deferred, deferred,
                                         free_ordered(client, deferred->pointer, stream, &key));
}

static void wait_for_gone(struct gpumem_client *client)
{
        struct deferred_free *deferred;
        bool more = true;

        while (more && (deferred = deferred_free_take_gone(&client->deferred))) {
                int r = stream_synchronize_context(&client->cuda, deferred->order.context);

                if (!r)
                        r = free_over(client, deferred->pointer);
                more = deferred_free_end(&client->deferred, deferred, r);
        }
}

void client_wait_for_freed(struct gpumem_client *client)
{
        wait_for_gone(client);
        client_end_deferred(client, true);
        captures_wait(&client->captures);
        captures_look(&client->captures);
}

/* The order of a stream that captures cannot be known now. */
static int defer(struct gpumem_client *client, const struct stream_heap *heap, const void *pointer,
                 void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        int r = pool_find(heap->pool, pointer);

        return r ? r : captures_defer(&client->captures, pointer, stream);
}

static void end_deferred(struct gpumem_client *client, void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        client_free_captured(client, stream);
}

/* What a graph reads of pinned memory the CPU has written, and the next owner's CPU waits for no graph: only
 * memory of a device goes to and fro within a capture. */
static bool is_deferred(const struct stream_heap *heap, const struct stream_mark *mark)
{
        return mark->scope & CAPTURE_SCOPE &&
               (!pool_has_mark(heap, mark) || heap->pool->memory.kind == GPUMEM_PINNED);
}

/* The memory goes back to the heap of the stream that it was allocated for. Device memory that is
 * freed in that stream's order needs no waiting before. Any other free does, and pinned memory
 * always: its next owner writes with the CPU, which no stream holds up. The handle alone does not tell
 * whose order it is: when the stream was destroyed, it may be another one's, even in another context,
 * whose work no call would wait for that looks for idle blocks. */
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
        /* The memory was made without a context, and is freed by a thread that has none. */
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
        /* The order of a graph is that of its capture alone. */
        if (is_ordered && pool_is_captured(heap))
                how.contexts[0] = 0;
        else if (is_ordered) {
                how.own_stream = &stream;
                how.own = (struct stream_key){.context = order.context, .id = mark.id};
        }
        return free_or_defer(client, heap, &how, is_own ? &stream : NULL);
}

/* Most frees end here: of device memory, in the order of its own stream, which no other one uses. Whatever
 * else it may be, the longer way finds out again. */
static ALWAYS_INLINE int free_hit(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct stream_heap *heap;
        const struct heap_block *block = block_of(client, pointer, &heap);
        struct stream_mark mark;

        if (!heap || heap->pool->memory.kind != GPUMEM_DEVICE || !heap->key.context ||
            is_used(block) || !deferred_free_none(&client->deferred) ||
            look_at_stream(client, stream, &mark) || !pool_has_mark(heap, &mark))
                return GPUMEM_E_REFUSED;
        return free_in(heap, pointer, &stream);
}

static NOINLINE int free_slow(struct gpumem_client *client, void *pointer, void *stream)
{
        struct stream_heap *heap;
        struct heap_block *block;

        if (!deferred_free_none(&client->deferred))
                end_deferred(client, stream);
        if (client_has_deferred(client, pointer))
                return GPUMEM_E_NOT_OURS;
        block = block_of(client, pointer, &heap);
        return heap ? free_in_order(client, heap, block, pointer, stream)
                    : client_free_shared(client, pointer, stream);
}

/* While calls are recorded or debugged. */
static COLD int free_watched(struct gpumem_client *client, void *pointer, void *stream)
{
        struct debugged *debugged = NULL;
        int r;

        if (debug_is_on(&client->debug))
                debugged = debug_begin_free(&client->debug, pointer, DEBUG_IN_STREAM, stream);
        r = free_hit(client, pointer, stream);
        if (r == GPUMEM_E_REFUSED)
                r = free_slow(client, pointer, stream);
        debug_end_free(&client->debug, debugged, r);
        if (trace_is_on() && !r)
                trace_free(pointer);
        client_settle(client);
        return r;
}

FLAT int gpumem_free(struct gpumem_client *client, void *pointer, void *stream)
{
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (switches_any())
                return free_watched(client, pointer, stream);
        r = free_hit(client, pointer, stream);
        if (r == GPUMEM_E_REFUSED)
                r = free_slow(client, pointer, stream);
        client_settle(client);
        return r;
}

/* Nothing that runs on a device uses it any more. */
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

static COLD int free_sync_watched(struct gpumem_client *client, void *pointer)
{
        struct debugged *debugged = NULL;
        int r;

        if (debug_is_on(&client->debug))
                debugged = debug_begin_free(&client->debug, pointer, DEBUG_AFTER_ALL, NULL);
        r = free_sync(client, pointer);
        debug_end_free(&client->debug, debugged, r);
        if (trace_is_on() && !r)
                trace_free(pointer);
        return r;
}

int gpumem_free_sync(struct gpumem_client *client, void *pointer)
{
        int r;

        if (!pointer)
                return 0;
        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        r = switches_any() ? free_sync_watched(client, pointer) : free_sync(client, pointer);
        client_settle(client);
        return r;
}

static bool is_own_stream(const struct stream_heap *heap, const struct stream_key *key)
{
        return heap && heap->key.context == key->context && heap->key.id == key->id &&
               heap->key.capture == key->capture;
}

static bool is_allocation(struct gpumem_client *client, const void *pointer)
{
        struct shared_alloc_info info;

        for (uint32_t i = 0; i < client->n_pools; i++) {
                if (pool_find(&client->pools[i], pointer) == 0 ||
                    shared_alloc_find(&client->pools[i], pointer, &info) == 0)
                        return !client_has_deferred(client, pointer);
        }
        return false;
}

int gpumem_record_use(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct stream_heap *heap;
        struct heap_block *block;
        struct stream_key key;
        int ordinal, r = fork_guard_check(&client->fork_guard);

        if (r)
                return r;
        if (!is_allocation(client, pointer))
                return GPUMEM_E_NOT_OURS;
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        r = stream_identify(&client->cuda, stream, &key, &ordinal);
        block = block_of(client, pointer, &heap);
        if (r || is_own_stream(heap, &key))
                return r;
        /* It is another stream in the thread that frees, or marks. */
        if (stream == CU_STREAM_PER_THREAD)
                return GPUMEM_E_UNSUPPORTED;
        return block ? stream_uses_add(&client->uses, pointer, &block->n_uses, stream, &key)
                     : GPUMEM_E_NOT_OURS;
}

static uint64_t flush(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        uint64_t n_bytes = 0;

        client_wait_for_freed(client);
        for (uint32_t i = 0; i < client->n_pools; i++)
                n_bytes += trim_flush(&client->pools[i]);
        return n_bytes;
}

int gpumem_flush(struct gpumem_client *client, uint64_t *ret_freed_bytes)
{
        uint64_t n_bytes;
        int r = fork_guard_check(&client->fork_guard);

        if (r)
                return r;
        n_bytes = flush(client);
        if (ret_freed_bytes)
                *ret_freed_bytes = n_bytes;
        client_settle(client);
        return 0;
}

/* What is flushed is cached when the daemon comes to the request, and is counted there; but where the daemon keeps
 * nothing in its cache, it has gone back by then and is not. So the larger count is taken, and not the sum. */
int gpumem_free_all_blocks(struct gpumem_client *client, enum gpumem_scope scope,
                           uint64_t *ret_freed_bytes)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint64_t n_flushed_bytes;
        int r;

        r = fork_guard_check(&client->fork_guard);
        if (r)
                return r;
        if (scope != GPUMEM_SCOPE_TENANT && scope != GPUMEM_SCOPE_NODE)
                return GPUMEM_E_BAD_REQUEST;
        n_flushed_bytes = flush(client);
        request.free_all_blocks.scope = (uint32_t)scope;
        request.free_all_blocks.pool = PROTO_ALL_POOLS;
        r = reconnect_call(&client->reconnector, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED,
                           &reply, &fds, NULL);
        client_settle(client);
        if (r)
                return r;
        if (ret_freed_bytes)
                *ret_freed_bytes = reply.freed.n_bytes > n_flushed_bytes ? reply.freed.n_bytes
                                                                         : n_flushed_bytes;
        return 0;
}
