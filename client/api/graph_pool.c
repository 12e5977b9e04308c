/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_graph_pool_begin and gpumem_graph_pool_end. */
#include <stdlib.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"

/* Refuses default streams: their handle means another stream in another context or thread, and of them only the
 * per-thread one can capture. */
static int enter(struct gpumem_client **client, void *stream, struct stream_mark *ret_mark)
{
        int r = client_enter(client);

        if (!r && !(*client)->has_cuda)
                r = GPUMEM_E_NO_DRIVER;
        if (!r && !stream_is_created(stream))
                r = GPUMEM_E_UNSUPPORTED;
        if (r)
                return r;
        r = stream_look(&(*client)->cuda, stream, ret_mark);
        return r == GPUMEM_E_UNSUPPORTED ? GPUMEM_E_CAPTURES : r;
}

/* The stream's next allocation searches for its heap again. */
static void forget_heap(struct gpumem_client *client, uint64_t context,
                        const struct stream_mark *mark)
{
        const struct stream_key key = {.context = context, .id = mark->id};

        recent_heaps_forget(&client->recent, mark);
        stream_handles_forget(&client->handles, &key);
}

/* The pool was over, but had blocks left: from now on graphs may use these at any time. */
static void set_busy(struct gpumem_client *client, uint64_t number)
{
        struct stream_heap *heap, *next;

        for (uint32_t i = 0; i < client->n_pools; i++) {
                struct pool *pool = &client->pools[i];

                pthread_mutex_lock(&pool->lock);
                HASH_ITER(hh, pool->heaps, heap, next)
                {
                        if (heap->key.capture != number)
                                continue;
                        spin_lock(&heap_in(heap)->lock);
                        heap_in(heap)->n_done_epochs = heap_in(heap)->n_settled_epochs = 0;
                        spin_unlock(&heap_in(heap)->lock);
                }
                pthread_mutex_unlock(&pool->lock);
        }
}

/* The caller has the lock. The entry is consumed if it works. */
static int open_in(struct gpumem_client *client, uint64_t id, struct graph_stream *stream,
                   uint64_t *ret_id)
{
        struct graph_memory *graph_memory = &client->graph_memory;
        uint32_t n_before = HASH_COUNT(graph_memory->pools.all);
        struct graph_pool *pool;
        int r;

        if (graph_pools_find(&graph_memory->pools, stream->stream))
                return GPUMEM_E_GRAPH_POOL_OPEN;
        r = graph_pools_get(&graph_memory->pools, id, &pool);
        if (r)
                return r;
        atomic_fetch_add(&graph_memory->n, HASH_COUNT(graph_memory->pools.all) - n_before);
        if (graph_pool_is_over(pool))
                set_busy(client, pool->number);
        graph_pools_open(&graph_memory->pools, pool, stream);
        atomic_fetch_add(&graph_memory->n_open, 1);
        if (ret_id)
                *ret_id = pool->id;
        return 0;
}

static int open_in_stream(struct gpumem_client *client, uint64_t id, void *stream,
                          const struct stream_mark *mark, uint64_t *ret_id)
{
        struct graph_stream *entry;
        struct stream_key key;
        int ordinal, r;

        r = stream_identify(&client->cuda, stream, &key, &ordinal);
        if (r)
                return r;
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return -ENOMEM;
        entry->stream = stream;
        entry->mark = *mark;
        entry->context = key.context;
        pthread_mutex_lock(&client->graph_memory.lock);
        r = open_in(client, id, entry, ret_id);
        pthread_mutex_unlock(&client->graph_memory.lock);
        if (r)
                free(entry);
        else
                forget_heap(client, key.context, mark);
        return r;
}

int gpumem_graph_pool_begin(struct gpumem_client *client, uint64_t id, void *stream,
                            uint64_t *ret_id)
{
        struct stream_mark mark;
        int r = enter(&client, stream, &mark);

        if (!r && !id && !ret_id)
                r = GPUMEM_E_BAD_REQUEST;
        return r ? r : open_in_stream(client, id, stream, &mark, ret_id);
}

/* Takes the stream's entry out. The pool stays open until the stream's work is over. The caller has the lock. */
static int take(struct graph_memory *graph_memory, uint64_t id, const void *stream,
                struct graph_stream **ret_entry)
{
        struct graph_stream *entry = graph_pools_find(&graph_memory->pools, stream);

        if (!entry || entry->pool->id != id)
                return GPUMEM_E_NO_GRAPH_POOL;
        LIST_REMOVE(entry, link);
        atomic_fetch_sub(&graph_memory->n_open, 1);
        *ret_entry = entry;
        return 0;
}

/* The stream frees no memory of the pool in its own order any more. */
static void take_leave(struct gpumem_client *client, const struct graph_stream *entry)
{
        struct stream_heap *heap, *next;

        for (uint32_t i = 0; i < client->n_pools; i++) {
                struct pool *pool = &client->pools[i];

                pthread_mutex_lock(&pool->lock);
                HASH_ITER(hh, pool->heaps, heap, next)
                {
                        if (heap->key.capture != entry->pool->number ||
                            !pool_has_mark(heap, &entry->mark))
                                continue;
                        spin_lock(&heap_in(heap)->lock);
                        pool_set_mark(heap, &stream_mark_none);
                        spin_unlock(&heap_in(heap)->lock);
                }
                pthread_mutex_unlock(&pool->lock);
        }
        forget_heap(client, entry->context, &entry->mark);
}

static int close_in_stream(struct gpumem_client *client, uint64_t id, void *stream)
{
        struct graph_memory *graph_memory = &client->graph_memory;
        struct graph_stream *entry;
        int r;

        pthread_mutex_lock(&graph_memory->lock);
        r = take(graph_memory, id, stream, &entry);
        pthread_mutex_unlock(&graph_memory->lock);
        if (r)
                return r;
        take_leave(client, entry);
        if (entry->is_used)
                r = streams_wait(&client->streams, entry->context, &stream);
        pthread_mutex_lock(&graph_memory->lock);
        graph_pools_settle(&graph_memory->pools, entry, r);
        pthread_mutex_unlock(&graph_memory->lock);
        graph_memory_end_gone(graph_memory);
        return r;
}

static int end(struct gpumem_client *client, uint64_t id, void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        int r = close_in_stream(client, id, stream);

        /* Blocks that it leaves may be idle. */
        if (r != GPUMEM_E_NO_GRAPH_POOL && !service_thread_wake(&client->service))
                client_look(client);
        return r;
}

int gpumem_graph_pool_end(struct gpumem_client *client, uint64_t id, void *stream)
{
        struct stream_mark mark;
        int r = enter(&client, stream, &mark);

        if (r)
                return r;
        r = end(client, id, stream);
        events_tell(&client->events);
        return r;
}
