#include "client/captures.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/table.h"
#include "client/client.h"

struct captured {
        uint64_t number;
        struct tie *tie;
        UT_hash_handle hh;
};

void captures_init(struct captures *captures)
{
        *captures = (struct captures){.all = NULL};
        pthread_mutex_init(&captures->lock, NULL);
}

static void drop(struct captures *captures, struct captured *captured)
{
        HASH_DEL(captures->all, captured);
        atomic_fetch_sub(&captures->n, 1);
        (void)tie_unref(captured->tie);
        free(captured);
}

void captures_deinit(struct captures *captures)
{
        struct captured *captured, *next;

        HASH_ITER(hh, captures->all, captured, next)
        {
                drop(captures, captured);
        }
        captures->bell = bell_unref(captures->bell);
        pthread_mutex_destroy(&captures->lock);
}

/* The caller has the lock. */
static int add(struct captures *captures, uint64_t number, int wake_fd,
               struct captured **ret_captured)
{
        struct captured *captured;

        if (!captures->bell)
                captures->bell = bell_new(wake_fd);
        captured = captures->bell ? calloc(1, sizeof(*captured)) : NULL;
        if (!captured)
                return -ENOMEM;
        captured->number = number;
        captured->tie = tie_new(captures->bell);
        if (captured->tie)
                HASH_ADD(hh, captures->all, number, sizeof(captured->number), captured);
        if (!captured->tie || !captured->hh.tbl) {
                (void)tie_unref(captured->tie);
                free(captured);
                return -ENOMEM;
        }
        atomic_fetch_add(&captures->n, 1);
        *ret_captured = captured;
        return 0;
}

/* The graph says when it is gone. The service thread takes the lock too, so it is begun without. */
static int know(struct gpumem_client *client, const struct capture *capture, struct tie **ret_tie)
{
        struct captures *captures = &client->captures;
        struct captured *captured = NULL;
        int wake_fd = service_wake(&client->service) ? client->service.wake_fd : -1;
        int r = 0;

        pthread_mutex_lock(&captures->lock);
        HASH_FIND(hh, captures->all, &capture->number, sizeof(capture->number), captured);
        if (!captured) {
                r = add(captures, capture->number, wake_fd, &captured);
                if (!r)
                        r = tie_bind(captured->tie, &client->cuda, capture);
                if (r && captured)
                        drop(captures, captured);
        }
        if (!r)
                *ret_tie = tie_ref(captured->tie);
        pthread_mutex_unlock(&captures->lock);
        return r;
}

int captures_park(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct capture capture;
        struct stream_mark mark;
        struct stream_key key;
        struct tie *tie;
        int ordinal, r;

        r = capture_identify(&client->cuda, stream, &key, &ordinal);
        if (!r)
                r = capture_look(&client->cuda, stream, &mark, &capture);
        if (!r)
                r = know(client, &capture, &tie);
        return r ? r : parked_add(&client->parked, pointer, stream, &key, tie);
}

int captures_place(struct gpumem_client *client, const struct gpumem_request *request,
                   struct pool_request *ret_asked, int *ret_ordinal)
{
        struct capture capture;
        struct stream_mark mark;
        struct stream_key key;
        struct tie *tie;
        int ordinal, r;

        if (request->flags)
                return GPUMEM_E_UNSUPPORTED;
        r = capture_identify(&client->cuda, request->stream, &key, &ordinal);
        if (!r)
                r = capture_look(&client->cuda, request->stream, &mark, &capture);
        if (!r)
                r = know(client, &capture, &tie);
        if (r)
                return r;
        (void)tie_unref(tie);
        ret_asked->key = key;
        ret_asked->mark = mark;
        *ret_ordinal = ordinal;
        return 0;
}

static void set_idle(struct stream_heap *heap)
{
        lock_take(&heap_in(heap)->lock);
        heap_in(heap)->n_done_epochs = UINT64_MAX;
        lock_drop(&heap_in(heap)->lock);
}

/* From now on blocks leave the heaps as any idle ones do; heaps without blocks end. True: there are
 * others. */
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

/* True: a heap of it is there still. */
static bool end_heaps(struct gpumem_client *client, uint64_t number)
{
        bool left = false;

        for (uint32_t i = 0; i < client->n_pools; i++)
                left = end_in_pool(&client->pools[i], number) || left;
        return left;
}

void captures_look(struct gpumem_client *client)
{
        struct captures *captures = &client->captures;
        struct captured *captured, *next;

        if (captures_are_none(captures))
                return;
        pthread_mutex_lock(&captures->lock);
        HASH_ITER(hh, captures->all, captured, next)
        {
                if (tie_is_gone(captured->tie) && !end_heaps(client, captured->number))
                        drop(captures, captured);
        }
        pthread_mutex_unlock(&captures->lock);
}
