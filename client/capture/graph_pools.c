/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/graph_pools.h"

#include <stdlib.h>

#include "base/err.h"

/* Marks ids and numbers of pools that are made here; captures are numbered from 1 up. */
#define MADE_HERE (UINT64_C(1) << 63)

void graph_pools_init(struct graph_pools *pools)
{
        *pools = (struct graph_pools){.all = NULL};
        LIST_INIT(&pools->streams);
        TAILQ_INIT(&pools->left);
}

void graph_pools_deinit(struct graph_pools *pools)
{
        struct graph_stream *stream;
        struct graph_pool *pool, *next;

        while ((stream = LIST_FIRST(&pools->streams))) {
                LIST_REMOVE(stream, link);
                free(stream);
        }
        while ((stream = graph_pools_take_left(pools)))
                free(stream);
        HASH_ITER(hh, pools->all, pool, next)
        {
                graph_pools_drop(pools, pool);
        }
}

/* Was the id given to the program? */
static bool was_made(const struct graph_pools *pools, uint64_t id)
{
        return id > MADE_HERE && id <= (MADE_HERE | pools->n_ids);
}

int graph_pools_get(struct graph_pools *pools, uint64_t id, struct graph_pool **ret_pool)
{
        struct graph_pool *pool = NULL;

        if (id)
                HASH_FIND(hh, pools->all, &id, sizeof(id), pool);
        if (!pool && id >= MADE_HERE && !was_made(pools, id))
                return GPUMEM_E_NO_GRAPH_POOL;
        if (!pool) {
                pool = calloc(1, sizeof(*pool));
                if (!pool)
                        return -ENOMEM;
                pool->number = MADE_HERE | ++pools->n_made;
                pool->id = id ? id : MADE_HERE | (pools->n_ids + 1);
                HASH_ADD(hh, pools->all, id, sizeof(pool->id), pool);
                if (!pool->hh.tbl) {
                        free(pool);
                        return -ENOMEM;
                }
                pools->n_ids += !id;
        }
        *ret_pool = pool;
        return 0;
}

void graph_pools_drop(struct graph_pools *pools, struct graph_pool *pool)
{
        HASH_DEL(pools->all, pool);
        free(pool);
}

static bool has_branch(const struct graph_pools *pools, const struct graph_pool *pool,
                       uint64_t branch)
{
        const struct graph_stream *stream;

        LIST_FOREACH (stream, &pools->streams, link) {
                if (stream->pool == pool && stream->branch == branch)
                        return true;
        }
        return false;
}

void graph_pools_open(struct graph_pools *pools, struct graph_pool *pool,
                      struct graph_stream *take_stream)
{
        take_stream->pool = pool;
        take_stream->thread = pthread_self();
        take_stream->branch = 0;
        while (has_branch(pools, pool, take_stream->branch))
                take_stream->branch++;
        LIST_INSERT_HEAD(&pools->streams, take_stream, link);
        pool->n_open++;
}

void graph_pools_settle(struct graph_pools *pools, struct graph_stream *take_stream, int r)
{
        if (r) {
                TAILQ_INSERT_TAIL(&pools->left, take_stream, left_link);
                atomic_fetch_add(&pools->n_left, 1);
                return;
        }
        take_stream->pool->n_open--;
        free(take_stream);
}

struct graph_stream *graph_pools_take_left(struct graph_pools *pools)
{
        struct graph_stream *stream = TAILQ_FIRST(&pools->left);

        if (stream) {
                TAILQ_REMOVE(&pools->left, stream, left_link);
                atomic_fetch_sub(&pools->n_left, 1);
        }
        return stream;
}

struct graph_stream *graph_pools_find(const struct graph_pools *pools, const void *stream)
{
        struct graph_stream *found;

        LIST_FOREACH (found, &pools->streams, link) {
                if (found->stream == stream)
                        return found;
        }
        return NULL;
}

struct graph_pool *graph_pools_of(const struct graph_pools *pools, const struct cuda *cuda,
                                  const struct capture *capture, const void *in_stream)
{
        struct graph_stream *stream = graph_pools_find(pools, in_stream);
        struct stream_mark mark;
        struct capture other;

        if (stream)
                return stream->pool;
        LIST_FOREACH (stream, &pools->streams, link) {
                if (pthread_equal(stream->thread, pthread_self()) &&
                    capture_look(cuda, stream->stream, &mark, &other) == 0 &&
                    other.number == capture->number)
                        return stream->pool;
        }
        return NULL;
}
