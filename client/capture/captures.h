/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that memory was allocated in: each has heaps of its own, one for every stream in it, which are no other
 * stream's and not taken apart while a graph of the capture is there. Within a capture a heap is as any other: what is
 * freed in its stream is had again there, in the order of the graph. When the graph, its clones and its executables are
 * gone, and their work is over, what is free in the heaps is idle, and a heap ends when the last of its allocations
 * has.
 *
 * Captures of one graph pool share heaps: the first stream that allocates in each of them has the pool's first heap,
 * and so on, as no two of them run at once. Such a heap is in the order of one capture, and of one stream in it, at a
 * time: its mark says which. Streams in which the pool is open have it outside of captures too. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/capture/graph_lifetime.h"
#include "client/capture/graph_pools.h"
#include "driver/capture.h"
#include "gpumem.h"

struct captured;
struct deferred_frees;
struct pool;
struct pool_request;
struct service_thread;

/* What the captures of a client are about; it outlives them. */
struct captures_env {
        const struct cuda *cuda; /* loaded before a stream is met that captures */
        struct service_thread *service;
        struct deferred_frees *deferred;
        struct pool *pools;
        const _Atomic uint32_t *n_pools;
};

struct captures {
        struct captures_env env;
        pthread_mutex_t lock;        /* taken before the pools' */
        struct captured *all;        /* by number */
        struct graph_wakeup *wakeup; /* once there was one */
        struct graph_pools pools;
        _Atomic uint32_t n;      /* of both; read without the lock too */
        _Atomic uint32_t n_open; /* streams in which a pool is; read without the lock too */
};

static inline bool captures_are_none(const struct captures *captures)
{
        return atomic_load_explicit(&captures->n, memory_order_relaxed) == 0;
}

void captures_init(struct captures *captures, const struct captures_env *env);

/* Graphs may be there still. */
void captures_deinit(struct captures *captures);

/* Who asks, where the stream captures: from now on the capture is known. As stream_identify. */
int captures_place(struct captures *captures, const struct gpumem_request *request,
                   struct pool_request *ret_asked, int *ret_ordinal);

/* Who asks, where the stream captures nothing: a graph pool that is open there, instead of the stream. */
void captures_divert(struct captures *captures, const struct pool_request *asked,
                     struct stream_key *key);

/* The free of an allocation that is not the capture's and the stream's: deferred. */
int captures_defer(struct captures *captures, const void *pointer, void *stream);

/* A graph pool is kept because the work of a stream could not be waited for when it was closed there. */
static inline bool captures_are_all_settled(const struct captures *captures)
{
        return atomic_load_explicit(&captures->pools.n_left, memory_order_relaxed) == 0;
}

/* Waits for that work once more, with all of its context's. */
void captures_wait(struct captures *captures);

/* Ends heaps whose graphs are gone, as far as nothing is allocated there. */
void captures_look(struct captures *captures);
