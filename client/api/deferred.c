/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees: of memory that other streams use, and of memory that was freed in captures. */
#include "client/api/heap_free.h"
#include "client/pool/idle_marking.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/before_wait.h"

void look_at_heap(struct stream_heap *heap, uint64_t generation, void *const *own_stream,
                  enum look_patience patience)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(heap->pool->memory.cuda);

        /* To record an event waits, too: for the driver, which a host function of another thread may hold. */
        before_wait_begin();
        if (idle_marking_is_on(heap->pool))
                idle_marking_note(heap, generation, own_stream);
        else
                empty_blocks_look(heap, generation, own_stream, patience);
}

void wake_for_idle(struct pool *pool)
{
        if (idle_marking_is_on(pool))
                (void)service_thread_wake(pool->service);
}

void look_at_captured(struct pool *pool)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = capture_spare(pool->memory.cuda);

        if (!service_thread_wake(pool->service))
                (void)idle_marking_look(pool, IDLE_MARKING_WHEN_DUE);
}

/* All its uses are over. The service thread calls this, too, and gpumem_free after gpumem_record_use, which does not
 * wait. */
static int free_unwaited(struct stream_heap *heap, const void *pointer)
{
        return free_found(heap, pool_block_of(heap->pool, pointer), pointer, NULL,
                          LOOK_NEVER_WAITS);
}

int free_or_defer(struct gpumem_client *client, struct stream_heap *heap,
                  const struct stream_use_end *how, void *const *own_stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        enum deferred_frees_end end;
        int r;

        r = pool_find(heap->pool, how->pointer);
        if (!r)
                r = deferred_frees_add(&client->deferred, &client->streams, how, &end);
        if (r)
                return r;
        if (end == DEFERRED_FREES_NONE)
                return free_in(heap, how->pointer, own_stream);
        if (end == DEFERRED_FREES_OVER)
                return free_unwaited(heap, how->pointer);
        if (!service_thread_wake(&client->service))
                client_end_deferred(client, false);
        return 0;
}

static void free_over_ones(struct gpumem_client *client, uint32_t n_looks_max)
{
        struct stream_use *use;

        streams_poll(&client->streams);
        while ((use = deferred_frees_next_over(&client->deferred, &client->streams, n_looks_max))) {
                struct stream_heap *heap = heap_of(client, use->pointer);

                if (heap)
                        (void)free_unwaited(heap, use->pointer);
                stream_use_free(use, &client->cuda);
        }
}

void client_end_deferred(struct gpumem_client *client, bool wait)
{
        if (deferred_frees_none(&client->deferred))
                return;
        free_over_ones(client, wait ? DEFERRED_FREES_LOOKS_ALL : DEFERRED_FREES_LOOKS_MAX);
        if (!wait || deferred_frees_none(&client->deferred))
                return;
        deferred_frees_wait(&client->deferred, &client->cuda);
        free_over_ones(client, DEFERRED_FREES_LOOKS_ALL);
}

bool client_has_deferred(struct gpumem_client *client, const void *pointer)
{
        struct stream_heap *heap;
        const struct heap_block *block = block_of(client, pointer, &heap);

        return (block && is_used(block) && deferred_frees_has(&client->deferred, pointer)) ||
               (!capture_frees_none(&client->capture_frees) &&
                capture_frees_has(&client->capture_frees, pointer));
}

static void catch_up(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        before_wait_begin();
        for (uint32_t i = 0; i < client->n_pools; i++) {
                if (idle_marking_owes(&client->pools[i]))
                        idle_marking_catch_up(&client->pools[i], false);
        }
        streams_catch_up(&client->streams);
        if (atomic_load(&client->deferred.n_unmarked))
                deferred_frees_mark(&client->deferred, &client->streams);
}

/* While a capture is announced, each call would try in vain. */
void client_catch_up(struct gpumem_client *client)
{
        if (!capture_gate_is_closed(&client->streams.gate))
                catch_up(client);
}

void client_record_all_frees(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        for (uint32_t i = 0; i < client->n_pools; i++)
                idle_marking_catch_up(&client->pools[i], true);
        streams_pay(&client->streams, true);
}

void client_do_after_call(struct gpumem_client *client)
{
        client_catch_up(client);
        events_tell(&client->events);
}

int client_end_call(struct gpumem_client *client, int r)
{
        client_do_after_call(client);
        return r;
}

/* Frees an allocation of a heap in the order of `stream`, which is not the memory's own. Returns 0 also if it is no
 * allocation any more: a program may have freed it twice at the same time. */
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

/* The same after all work is over, except that of recorded streams, which this waits for. */
static int free_over(struct gpumem_client *client, const void *pointer)
{
        int r = stream_uses_wait(&client->uses, &client->cuda, pointer);
        struct stream_heap *heap = heap_of(client, pointer);

        return r || !heap ? r : free_in(heap, pointer, NULL);
}

/* Deferred frees name the stream by its handle: the driver does not tell the id of a capturing stream. */
void client_free_captured_of(struct gpumem_client *client, void *stream,
                             const struct stream_key *key)
{
        struct stream_key by_handle = *key;
        struct capture_free *deferred;
        bool more = true;

        by_handle.id = stream_captured_id(stream);
        while (more && (deferred = capture_frees_take_of(&client->capture_frees, &by_handle)))
                more = capture_frees_end(&client->capture_frees, deferred,
                                         free_ordered(client, deferred->pointer, stream, key));
}

void client_free_captured(struct gpumem_client *client, void *stream)
{
        struct stream_key key;
        int ordinal;

        if (capture_frees_none(&client->capture_frees) ||
            stream_identify(&client->cuda, stream, &key, &ordinal))
                return;
        client_free_captured_of(client, stream, &key);
}

static void wait_for_gone(struct gpumem_client *client)
{
        struct capture_free *deferred;
        bool more = true;

        while (more && (deferred = capture_frees_take_gone(&client->capture_frees))) {
                int r = stream_synchronize_context(&client->cuda, deferred->order.context);

                if (!r)
                        r = free_over(client, deferred->pointer);
                more = capture_frees_end(&client->capture_frees, deferred, r);
        }
}

void client_wait_for_freed(struct gpumem_client *client)
{
        wait_for_gone(client);
        client_end_deferred(client, true);
        graph_memory_wait(&client->graph_memory);
        graph_memory_end_gone(&client->graph_memory);
}
