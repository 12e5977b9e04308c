/* SPDX-License-Identifier: Apache-2.0 */
/* Graph pools: memory that several captures share, and the streams in which each pool is open. A pool is known as
 * long as it is open somewhere, or a graph or memory of it exists. The caller has the lock of graph_memory.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "driver/capture.h"

struct graph_pool {
        uint64_t id;     /* chosen by the application, or made here */
        uint64_t number; /* names its heaps; no capture or other pool has it */
        uint32_t n_open;
        uint32_t n_captures; /* captures whose graphs exist */
        UT_hash_handle hh;
};

/* A stream in which a pool is open. */
struct graph_stream {
        LIST_ENTRY(graph_stream) link;
        struct graph_pool *pool;
        void *stream;
        pthread_t thread;        /* which opened it there */
        struct stream_mark mark; /* the stream's mark while it captures nothing */
        uint64_t branch;         /* differs among the streams in which the pool is open */
        bool is_used;            /* memory was allocated there outside of captures */
        uint64_t context;        /* the stream's */
        TAILQ_ENTRY(graph_stream) left_link;
};
LIST_HEAD(graph_streams, graph_stream);
TAILQ_HEAD(left_streams, graph_stream);

struct graph_pools {
        struct graph_pool *all;
        struct graph_streams streams;
        struct left_streams left; /* closed there, but their work may not be over */
        _Atomic uint32_t n_left;  /* read without the lock too */
        uint64_t n_made;
        uint64_t n_ids; /* of pools for which the program chose none */
};

void graph_pools_init(struct graph_pools *pools);
void graph_pools_deinit(struct graph_pools *pools);

/* Returns the pool with this id; makes it if need be. 0: a new one. GPUMEM_E_NO_GRAPH_POOL: only this module makes
 * such ids, and it has not made this one. -ENOMEM. */
int graph_pools_get(struct graph_pools *pools, uint64_t id, struct graph_pool **ret_pool);
void graph_pools_drop(struct graph_pools *pools, struct graph_pool *pool);

/* The entry is consumed. */
void graph_pools_open(struct graph_pools *pools, struct graph_pool *pool,
                      struct graph_stream *take_stream);

/* The caller has waited for the stream's work. If that failed (r), the work may not be over, and the pool is kept as
 * if it were open. The entry is consumed. */
void graph_pools_settle(struct graph_pools *pools, struct graph_stream *take_stream, int r);

/* Takes out the oldest entry of `left`, or NULL; the caller owns it. */
struct graph_stream *graph_pools_take_left(struct graph_pools *pools);

struct graph_stream *graph_pools_find(const struct graph_pools *pools, const void *stream);

/* The pool that is open in a stream of that capture, or NULL. in_stream is in the capture. Where no pool is open there, the driver
 * is asked about the streams in which the calling thread has opened one. Another thread may begin or end a capture in its
 * own stream at that moment, and the driver does not stand a question about such a stream. */
struct graph_pool *graph_pools_of(const struct graph_pools *pools, const struct cuda *cuda,
                                  const struct capture *capture, const void *in_stream);

/* No stream and no graph can use its memory any more. */
static inline bool graph_pool_is_over(const struct graph_pool *pool)
{
        return !pool->n_open && !pool->n_captures;
}
