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

#include "base/table.h"
#include "driver/capture.h"

struct graph_lifetime;

struct deferred_free {
        const void *pointer;
        void *stream;
        struct stream_key order;
        struct graph_lifetime *lifetime;
        UT_hash_handle hh;
};

struct deferred_frees {
        pthread_mutex_t lock;
        struct deferred_free *all; /* by pointer */
        _Atomic uint32_t n;        /* read without the lock too */
};

static inline bool deferred_free_none(const struct deferred_frees *deferred)
{
        return atomic_load_explicit(&deferred->n, memory_order_relaxed) == 0;
}

void deferred_free_init(struct deferred_frees *deferred);
void deferred_free_deinit(struct deferred_frees *deferred);

/* Defers the free of `pointer` in `stream`, which captures as `order` says. GPUMEM_E_NOT_OURS: it is deferred
 * already; -ENOMEM. The lifetime is consumed. */
int deferred_free_add(struct deferred_frees *deferred, const void *pointer, void *stream,
                      const struct stream_key *order, struct graph_lifetime *take_lifetime);

bool deferred_free_has(struct deferred_frees *deferred, const void *pointer);

/* Takes out a free that was made in captures of the stream with that order, or one whose capture's graphs are gone.
 * The caller frees the allocation, then calls deferred_free_end. NULL: there is none. */
struct deferred_free *deferred_free_take_of(struct deferred_frees *deferred,
                                            const struct stream_key *order);
struct deferred_free *deferred_free_take_gone(struct deferred_frees *deferred);

/* `r` is the result of the free. False: it has failed, and is deferred again. */
bool deferred_free_end(struct deferred_frees *deferred, struct deferred_free *take_free, int r);
