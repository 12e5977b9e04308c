/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/captures.h"

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
        struct graph_lifetime *lifetime;
        struct graph_pool *pool; /* NULL: its heaps are its own */
        uint64_t *streams;       /* streams of the pool's heaps, in order: stream_captured_id */
        uint32_t n_streams;
        UT_hash_handle hh;
};

void captures_init(struct captures *captures, const struct captures_env *env)
{
        *captures = (struct captures){.env = *env};
        graph_pools_init(&captures->pools);
        pthread_mutex_init(&captures->lock, NULL);
}

static void leave_pool(struct captured *captured)
{
        if (captured->pool)
                captured->pool->n_captures--;
        captured->pool = NULL;
}

static void drop(struct captures *captures, struct captured *captured)
{
        HASH_DEL(captures->all, captured);
        atomic_fetch_sub(&captures->n, 1);
        leave_pool(captured);
        (void)graph_lifetime_unref(captured->lifetime);
        free(captured->streams);
        free(captured);
}

void captures_deinit(struct captures *captures)
{
        struct captured *captured, *next;

        HASH_ITER(hh, captures->all, captured, next)
        {
                drop(captures, captured);
        }
        graph_pools_deinit(&captures->pools);
        captures->wakeup = graph_wakeup_unref(captures->wakeup);
        pthread_mutex_destroy(&captures->lock);
}

/* The caller has the lock. */
static int add(struct captures *captures, uint64_t number, int wake_fd,
               struct captured **ret_captured)
{
        struct captured *captured;

        if (!captures->wakeup)
                captures->wakeup = graph_wakeup_new(wake_fd);
        captured = captures->wakeup ? calloc(1, sizeof(*captured)) : NULL;
        if (!captured)
                return -ENOMEM;
        captured->number = number;
        captured->lifetime = graph_lifetime_new(captures->wakeup);
        if (captured->lifetime)
                HASH_ADD(hh, captures->all, number, sizeof(captured->number), captured);
        if (!captured->lifetime || !captured->hh.tbl) {
                (void)graph_lifetime_unref(captured->lifetime);
                free(captured);
                return -ENOMEM;
        }
        atomic_fetch_add(&captures->n, 1);
        *ret_captured = captured;
        return 0;
}

/* Finds the capture, or adds it and binds its graph's lifetime. The service thread takes the lock, too, so it was
 * started before: the caller has the lock, and has woken the thread. */
static int know(struct captures *captures, const struct capture *capture, int wake_fd,
                struct captured **ret_captured)
{
        struct captured *captured = NULL;
        int r = 0;

        HASH_FIND(hh, captures->all, &capture->number, sizeof(capture->number), captured);
        if (!captured) {
                r = add(captures, capture->number, wake_fd, &captured);
                if (r)
                        return r;
                r = graph_lifetime_bind(captured->lifetime, captures->env.cuda, capture);
                if (r) {
                        drop(captures, captured);
                        return r;
                }
                captured->pool = graph_pools_of(&captures->pools, captures->env.cuda, capture);
                if (captured->pool)
                        captured->pool->n_captures++;
        }
        *ret_captured = captured;
        return 0;
}

static int wake_fd_of(const struct captures *captures)
{
        struct service_thread *service = captures->env.service;

        return service_thread_wake(service) ? service->wake_fd : -1;
}

static int lifetime_of(struct captures *captures, const struct capture *capture,
                       struct graph_lifetime **ret_lifetime)
{
        int wake_fd = wake_fd_of(captures);
        struct captured *captured;
        int r;

        pthread_mutex_lock(&captures->lock);
        r = know(captures, capture, wake_fd, &captured);
        if (!r)
                *ret_lifetime = graph_lifetime_ref(captured->lifetime);
        pthread_mutex_unlock(&captures->lock);
        return r;
}

int captures_defer(struct captures *captures, const void *pointer, void *stream)
{
        struct capture capture;
        struct stream_mark mark;
        struct stream_key key;
        struct graph_lifetime *lifetime;
        int ordinal, r;

        r = capture_identify(captures->env.cuda, stream, &key, &ordinal);
        if (!r)
                r = capture_look(captures->env.cuda, stream, &mark, &capture);
        if (!r)
                r = lifetime_of(captures, &capture, &lifetime);
        return r ? r : capture_frees_add(captures->env.frees, pointer, stream, &key, lifetime);
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
static int find_heap(struct captures *captures, const struct capture *capture,
                     const struct gpumem_request *request, struct stream_key *key)
{
        int wake_fd = wake_fd_of(captures);
        struct captured *captured;
        int r;

        pthread_mutex_lock(&captures->lock);
        r = know(captures, capture, wake_fd, &captured);
        if (!r && captured->pool && request->kind == GPUMEM_DEVICE)
                r = share(captured, request->stream, key);
        pthread_mutex_unlock(&captures->lock);
        return r;
}

int captures_place(struct captures *captures, const struct gpumem_request *request,
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
        r = capture_identify(captures->env.cuda, request->stream, &key, &ordinal);
        if (!r)
                r = capture_look(captures->env.cuda, request->stream, &mark, &capture);
        if (!r)
                r = find_heap(captures, &capture, request, &key);
        if (r)
                return r;
        ret_asked->key = key;
        ret_asked->mark = mark;
        *ret_ordinal = ordinal;
        return 0;
}

void captures_divert(struct captures *captures, const struct pool_request *asked,
                     struct stream_key *key)
{
        struct graph_stream *open;

        if (!atomic_load(&captures->n_open))
                return;
        pthread_mutex_lock(&captures->lock);
        open = graph_pools_find(&captures->pools, asked->stream);
        if (open) {
                open->is_used = true;
                key->id = open->branch;
                key->capture = open->pool->number;
        }
        pthread_mutex_unlock(&captures->lock);
}

/* Tries each once; streams that another call has taken out are left to it. */
void captures_wait(struct captures *captures)
{
        struct graph_stream *left;
        int r;

        for (uint32_t n = atomic_load(&captures->pools.n_left); n; n--) {
                pthread_mutex_lock(&captures->lock);
                left = graph_pools_take_left(&captures->pools);
                pthread_mutex_unlock(&captures->lock);
                if (!left)
                        return;
                r = stream_synchronize_context(captures->env.cuda, left->context);
                pthread_mutex_lock(&captures->lock);
                graph_pools_settle(&captures->pools, left, r);
                pthread_mutex_unlock(&captures->lock);
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
static bool end_heaps(const struct captures *captures, uint64_t number)
{
        bool left = false;

        for (uint32_t i = 0; i < *captures->env.n_pools; i++)
                left = end_in_pool(&captures->env.pools[i], number) || left;
        return left;
}

/* Drops graph pools without captures and open streams, unless they have blocks. */
static void look_at_pools(struct captures *captures)
{
        struct graph_pool *pool, *next;

        HASH_ITER(hh, captures->pools.all, pool, next)
        {
                if (graph_pool_is_over(pool) && !end_heaps(captures, pool->number)) {
                        graph_pools_drop(&captures->pools, pool);
                        atomic_fetch_sub(&captures->n, 1);
                }
        }
}

void captures_look(struct captures *captures)
{
        struct captured *captured, *next;

        if (captures_are_none(captures))
                return;
        pthread_mutex_lock(&captures->lock);
        HASH_ITER(hh, captures->all, captured, next)
        {
                if (!graph_lifetime_is_gone(captured->lifetime))
                        continue;
                leave_pool(captured);
                if (!end_heaps(captures, captured->number))
                        drop(captures, captured);
        }
        look_at_pools(captures);
        pthread_mutex_unlock(&captures->lock);
}
