/* SPDX-License-Identifier: Apache-2.0 */
/* Frees in capturing streams of memory that does not belong to that capture and stream. While the capture is under
 * way, it is unknown which work comes before the free. The free is carried out when the stream is seen again and
 * captures nothing. It is then ordered as any free in a stream that the memory does not belong to. If the stream is
 * never seen again, the free waits until the capture's graphs are gone, and a call then waits for all work. Any
 * thread; its lock is not held during driver calls. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "driver/capture.h"

struct graph_count;

struct capture_free {
        const void *pointer;
        void *stream;
        struct stream_key order;
        struct graph_count *graphs;
        UT_hash_handle hh;
        LIST_ENTRY(capture_free) link; /* in `more` */
};

struct capture_frees {
        _Atomic uint32_t n; /* read without the lock too */
        pthread_mutex_t lock;
        struct capture_free *all; /* by pointer */
        /* Those that were to be deferred again when the table had no memory for them. */
        LIST_HEAD(, capture_free) more;
};

static inline bool capture_frees_none(const struct capture_frees *frees)
{
        return atomic_load_explicit(&frees->n, memory_order_relaxed) == 0;
}

void capture_frees_init(struct capture_frees *frees);
void capture_frees_deinit(struct capture_frees *frees);

/* Defers the free of `pointer` in `stream`, which captures as `order` says. GPUMEM_E_NOT_OURS: it is deferred
 * already; -ENOMEM. take_graphs is consumed. */
int capture_frees_add(struct capture_frees *frees, const void *pointer, void *stream,
                      const struct stream_key *order, struct graph_count *take_graphs);

bool capture_frees_has(struct capture_frees *frees, const void *pointer);

/* Takes out a free that was made in captures of the stream with that order, or one whose capture's graphs are gone.
 * The caller frees the allocation, then calls capture_frees_end. NULL: there is none. */
struct capture_free *capture_frees_take_of(struct capture_frees *frees,
                                           const struct stream_key *order);
struct capture_free *capture_frees_take_gone(struct capture_frees *frees);

/* `r` is the result of the free. False: it has failed, and is deferred again. */
bool capture_frees_end(struct capture_frees *frees, struct capture_free *take_free, int r);
