/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of CUDA graphs, from the capture until the graphs are destroyed. Each capture in which memory was
 * allocated has heaps of its own, one for every stream in it. No other stream uses them, and they stay intact while a
 * graph of the capture exists. Within a capture they are ordinary heaps: memory that is freed in its stream is
 * allocated again there, in the order of the graph. When the graph, its clones and its executables are gone, and
 * their work is over, free memory of the heaps is idle. A heap ends when the last of its allocations has ended.
 *
 * Captures of one graph pool share heaps, since no two of them run at once: the first stream that allocates in each
 * of them gets the pool's first heap, and so on. Such a heap is in the order of one stream of one capture at a time,
 * which its mark names. Streams in which the pool is open use its heaps outside of captures, too. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/capture/graph_count.h"
#include "client/capture/graph_pools.h"
#include "driver/capture.h"
#include "gpumem.h"

struct captured;
struct capture_frees;
struct pool;
struct pool_request;
struct service_thread;

/* What the captures of a client work on; outlives them. */
struct graph_memory_env {
        const struct cuda *cuda; /* loaded before the first capture is seen */
        struct service_thread *service;
        struct capture_frees *frees;
        struct pool *pools;
        const _Atomic uint32_t *n_pools;
};

struct graph_memory {
        struct graph_memory_env env;
        pthread_mutex_t lock;        /* taken before the pools' */
        struct captured *all;        /* by number */
        struct graph_wakeup *wakeup; /* made with the first capture */
        struct graph_pools pools;
        _Atomic uint32_t n;      /* captures and pools; read without the lock, too */
        _Atomic uint32_t n_open; /* streams with an open pool; read without the lock, too */
};

static inline bool graph_memory_are_none(const struct graph_memory *graph_memory)
{
        return atomic_load_explicit(&graph_memory->n, memory_order_relaxed) == 0;
}

void graph_memory_init(struct graph_memory *graph_memory, const struct graph_memory_env *env);

/* Legal while graphs still exist. */
void graph_memory_deinit(struct graph_memory *graph_memory);

/* Fills in the key and mark of a request whose stream captures; the capture is known from now on. As stream_identify. */
int graph_memory_place(struct graph_memory *graph_memory, const struct gpumem_request *request,
                       struct pool_request *ret_asked, int *ret_ordinal);

/* For a request whose stream captures nothing: if a graph pool is open in the stream, sets the key of the pool's
 * heap. */
void graph_memory_divert(struct graph_memory *graph_memory, const struct pool_request *asked,
                         struct stream_key *key);

/* Defers the free, in a capturing stream, of an allocation that does not belong to that capture and stream. */
int graph_memory_defer(struct graph_memory *graph_memory, const void *pointer, void *stream);

/* False: a graph pool is kept because a wait has failed, for the work of a stream in which it was closed. */
static inline bool graph_memory_are_all_settled(const struct graph_memory *graph_memory)
{
        return atomic_load_explicit(&graph_memory->pools.n_left, memory_order_relaxed) == 0;
}

/* Waits once more for that work, by waiting for its whole context. */
void graph_memory_wait(struct graph_memory *graph_memory);

/* Frees the memory of graphs that are gone: it becomes idle, and heaps without blocks end. */
void graph_memory_end_gone(struct graph_memory *graph_memory);
