/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/graph_memory.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"
#include "client/capture/capture_frees.h"
#include "client/pool/shared_alloc.h"
#include "client/pool/stream_heaps.h"
#include "client/runtime/last_error.h"
#include "client/runtime/service_thread.h"

struct captured {
        uint64_t number;
        struct graph_count *graphs;
        struct graph_pool *pool; /* NULL: its heaps are its own */
        uint64_t *streams;       /* streams of the pool's heaps, in order: stream_captured_id */
        uint32_t n_streams;
        UT_hash_handle hh;
};

void graph_memory_init(struct graph_memory *graph_memory, const struct graph_memory_env *env)
{
        *graph_memory = (struct graph_memory){.env = *env};
        graph_pools_init(&graph_memory->pools);
        pthread_mutex_init(&graph_memory->lock, NULL);
}

static void enter_pool(struct captured *captured, struct graph_pool *pool)
{
        captured->pool = pool;
        if (pool)
                pool->n_captures++;
}

static void leave_pool(struct captured *captured)
{
        if (captured->pool)
                captured->pool->n_captures--;
        captured->pool = NULL;
}

static void drop(struct graph_memory *graph_memory, struct captured *captured)
{
        HASH_DEL(graph_memory->all, captured);
        atomic_fetch_sub(&graph_memory->n, 1);
        leave_pool(captured);
        (void)graph_count_unref(captured->graphs);
        free(captured->streams);
        free(captured);
}

void graph_memory_deinit(struct graph_memory *graph_memory)
{
        struct captured *captured, *next;

        HASH_ITER(hh, graph_memory->all, captured, next)
        {
                drop(graph_memory, captured);
        }
        graph_pools_deinit(&graph_memory->pools);
        graph_memory->wakeup = graph_wakeup_unref(graph_memory->wakeup);
        pthread_mutex_destroy(&graph_memory->lock);
}

/* The caller has the lock. */
static int add(struct graph_memory *graph_memory, uint64_t number, int wake_fd,
               struct captured **ret_captured)
{
        struct captured *captured;

        if (!graph_memory->wakeup)
                graph_memory->wakeup = graph_wakeup_new(wake_fd);
        captured = graph_memory->wakeup ? calloc(1, sizeof(*captured)) : NULL;
        if (!captured)
                return -ENOMEM;
        captured->number = number;
        captured->graphs = graph_count_new(graph_memory->wakeup);
        if (captured->graphs)
                HASH_ADD(hh, graph_memory->all, number, sizeof(captured->number), captured);
        if (!captured->graphs || !captured->hh.tbl) {
                (void)graph_count_unref(captured->graphs);
                free(captured);
                return -ENOMEM;
        }
        atomic_fetch_add(&graph_memory->n, 1);
        *ret_captured = captured;
        return 0;
}

/* Where another thread allocated first, in a stream that has joined the capture, the pool was not found then. */
static void enter_own_pool(const struct graph_memory *graph_memory, struct captured *captured,
                           const void *stream)
{
        const struct graph_stream *own = graph_pools_find(&graph_memory->pools, stream);

        if (own && !captured->pool)
                enter_pool(captured, own->pool);
}

/* Finds the capture, or adds it and counts its graph. The service thread takes the lock, too, so it was
 * started before: the caller has the lock, and has woken the thread. */
static int know(struct graph_memory *graph_memory, const struct capture *capture,
                const void *stream, int wake_fd, struct captured **ret_captured)
{
        struct captured *captured = NULL;
        int r = 0;

        HASH_FIND(hh, graph_memory->all, &capture->number, sizeof(capture->number), captured);
        if (!captured) {
                r = add(graph_memory, capture->number, wake_fd, &captured);
                if (r)
                        return r;
                r = graph_count_bind(captured->graphs, graph_memory->env.cuda, capture);
                if (r) {
                        drop(graph_memory, captured);
                        return r;
                }
                enter_pool(captured, graph_pools_of(&graph_memory->pools, graph_memory->env.cuda,
                                                    capture, stream));
        }
        enter_own_pool(graph_memory, captured, stream);
        *ret_captured = captured;
        return 0;
}

static int wake_fd_of(const struct graph_memory *graph_memory)
{
        struct service_thread *service = graph_memory->env.service;

        return service_thread_wake(service) ? service->wake_fd : -1;
}

static int count_of(struct graph_memory *graph_memory, const struct capture *capture,
                    const void *stream, struct graph_count **ret_graphs)
{
        int wake_fd = wake_fd_of(graph_memory);
        struct captured *captured;
        int r;

        pthread_mutex_lock(&graph_memory->lock);
        r = know(graph_memory, capture, stream, wake_fd, &captured);
        if (!r)
                *ret_graphs = graph_count_ref(captured->graphs);
        pthread_mutex_unlock(&graph_memory->lock);
        return r;
}

int graph_memory_defer(struct graph_memory *graph_memory, const void *pointer, void *stream)
{
        struct capture capture;
        struct stream_mark mark;
        struct stream_key key;
        struct graph_count *graphs;
        int ordinal, r;

        r = capture_identify(graph_memory->env.cuda, stream, &key, &ordinal);
        if (!r)
                r = capture_look(graph_memory->env.cuda, stream, &mark, &capture);
        if (!r)
                r = count_of(graph_memory, &capture, stream, &graphs);
        return r ? r : capture_frees_add(graph_memory->env.frees, pointer, stream, &key, graphs);
}

/* Finds which of the pool's heaps the stream has in this capture. */
static int share(struct captured *captured, void *stream, struct stream_key *key)
{
        uint64_t id = stream_captured_id(stream);
        uint32_t branch = 0;

        while (branch < captured->n_streams && captured->streams[branch] != id)
                branch++;
        if (branch == captured->n_streams) {
                uint64_t *streams = reallocarray(captured->streams, branch + 1, sizeof(*streams));

                if (!streams)
                        return -ENOMEM;
                streams[branch] = id;
                captured->streams = streams;
                captured->n_streams++;
        }
        key->id = branch;
        key->capture = captured->pool->number;
        return 0;
}

/* Pinned memory is not shared by a graph pool: a graph reads what the CPU wrote when it was captured. */
static int find_heap(struct graph_memory *graph_memory, const struct capture *capture,
                     const struct gpumem_request *request, struct stream_key *key)
{
        int wake_fd = wake_fd_of(graph_memory);
        struct captured *captured;
        int r;

        pthread_mutex_lock(&graph_memory->lock);
        r = know(graph_memory, capture, request->stream, wake_fd, &captured);
        if (!r && captured->pool && request->kind == GPUMEM_DEVICE)
                r = share(captured, request->stream, key);
        pthread_mutex_unlock(&graph_memory->lock);
        return r;
}

int graph_memory_place(struct graph_memory *graph_memory, const struct gpumem_request *request,
                       struct pool_request *ret_asked, int *ret_ordinal)
{
        struct capture capture;
        struct stream_mark mark;
        struct stream_key key;
        int ordinal, r;

        if (request->flags & SHARED_ALLOC_FLAGS) {
                last_error_set(GPUMEM_E_UNSUPPORTED,
                               "shareable and registered memory cannot be allocated in a stream "
                               "that captures, since other processes or devices may reach it and "
                               "do not know the graph; allocate it before the capture begins");
                return GPUMEM_E_UNSUPPORTED;
        }
        r = capture_identify(graph_memory->env.cuda, request->stream, &key, &ordinal);
        if (!r)
                r = capture_look(graph_memory->env.cuda, request->stream, &mark, &capture);
        if (!r)
                r = find_heap(graph_memory, &capture, request, &key);
        if (r)
                return r;
        ret_asked->key = key;
        ret_asked->mark = mark;
        *ret_ordinal = ordinal;
        return 0;
}

void graph_memory_divert(struct graph_memory *graph_memory, const struct pool_request *asked,
                         struct stream_key *key)
{
        struct graph_stream *open;

        if (!atomic_load(&graph_memory->n_open))
                return;
        pthread_mutex_lock(&graph_memory->lock);
        open = graph_pools_find(&graph_memory->pools, asked->stream);
        if (open) {
                open->is_used = true;
                key->id = open->branch;
                key->capture = open->pool->number;
        }
        pthread_mutex_unlock(&graph_memory->lock);
}

/* Tries each once; streams that another call has taken out are left to it. */
void graph_memory_wait(struct graph_memory *graph_memory)
{
        struct graph_stream *left;
        int r;

        for (uint32_t n = atomic_load(&graph_memory->pools.n_left); n; n--) {
                pthread_mutex_lock(&graph_memory->lock);
                left = graph_pools_take_left(&graph_memory->pools);
                pthread_mutex_unlock(&graph_memory->lock);
                if (!left)
                        return;
                r = stream_synchronize_context(graph_memory->env.cuda, left->context);
                pthread_mutex_lock(&graph_memory->lock);
                graph_pools_settle(&graph_memory->pools, left, r);
                pthread_mutex_unlock(&graph_memory->lock);
        }
}

/* No stream frees there in its order any more, so all epochs are over. */
static void set_idle(struct stream_heap *heap)
{
        spin_lock(&heap_in(heap)->lock);
        pool_set_mark(heap, &stream_mark_none);
        heap_in(heap)->n_done_epochs = UINT64_MAX;
        spin_unlock(&heap_in(heap)->lock);
}

/* From now on blocks leave these heaps as any idle ones do. Ends heaps without blocks. True: others are left. */
static bool end_in_pool(struct pool *pool, uint64_t number)
{
        struct stream_heap *heap, *next;
        bool left = false;

        pthread_mutex_lock(&pool->lock);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (heap->key.capture != number)
                        continue;
                set_idle(heap);
                if (heap_in(heap)->n_blocks)
                        left = true;
                else
                        pool_retire_heap(pool, heap);
        }
        pthread_mutex_unlock(&pool->lock);
        return left;
}

/* True: heaps of it are left. */
static bool end_heaps(const struct graph_memory *graph_memory, uint64_t number)
{
        bool left = false;

        for (uint32_t i = 0; i < *graph_memory->env.n_pools; i++)
                left = end_in_pool(&graph_memory->env.pools[i], number) || left;
        return left;
}

/* Drops graph pools without captures and open streams, unless they have blocks. */
static void look_at_pools(struct graph_memory *graph_memory)
{
        struct graph_pool *pool, *next;

        HASH_ITER(hh, graph_memory->pools.all, pool, next)
        {
                if (graph_pool_is_over(pool) && !end_heaps(graph_memory, pool->number)) {
                        graph_pools_drop(&graph_memory->pools, pool);
                        atomic_fetch_sub(&graph_memory->n, 1);
                }
        }
}

void graph_memory_end_gone(struct graph_memory *graph_memory)
{
        struct captured *captured, *next;

        if (graph_memory_are_none(graph_memory))
                return;
        pthread_mutex_lock(&graph_memory->lock);
        HASH_ITER(hh, graph_memory->all, captured, next)
        {
                if (!graph_count_is_gone(captured->graphs))
                        continue;
                leave_pool(captured);
                if (!end_heaps(graph_memory, captured->number))
                        drop(graph_memory, captured);
        }
        look_at_pools(graph_memory);
        pthread_mutex_unlock(&graph_memory->lock);
}
