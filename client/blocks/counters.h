/* SPDX-License-Identifier: Apache-2.0 */
/* A client's counters of one pool, on the board, and their peaks.
 *
 * Each heap counts in one counter, under its own lock. As long as no two heaps share a counter, counting is a plain
 * store. The peak of the sum is exact, though it is not computed at each step. Each counter has a mark up to which it
 * may rise. The marks are set so that all counters together cannot exceed the peak. A counter that passes its mark
 * recomputes the sum, raises the peak, and redistributes the difference between them. Only calls that are under way
 * at that moment can be missed. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/board.h"

struct counter {
        _Atomic(struct board_lane *) board;
        _Atomic uint64_t requested_mark;
        _Atomic uint64_t allocated_mark;
        uint32_t n_heaps; /* heaps that count here; guarded by the pool's lock */
        _Atomic bool shared;
};

struct counters {
        struct board_pool *board; /* or &own */
        struct board_pool own;    /* used while there is no board */
        pthread_mutex_t peaks;    /* guards the peaks and the setting of marks */
        struct counter counters[BOARD_LANES];
};

void counters_init(struct counters *counters);
void counters_deinit(struct counters *counters);

/* Returns the counter with the fewest heaps, for one more heap; never the default counter. The caller has the pool's
 * lock and keeps all other threads from counting, since the counter may become shared. */
struct counter *counters_join(struct counters *counters);
void counters_leave(struct counter *counter);

/* The counter for memory that is in no heap: its callers have the pool's lock. */
struct counter *counters_default(struct counters *counters);

enum counter_event { COUNTER_HIT, COUNTER_MISS };

/* A counter rose above its mark. */
COLD void counters_pass_mark(struct counters *counters);

static ALWAYS_INLINE uint64_t counter_add(_Atomic uint64_t *number, uint64_t n, bool shared)
{
        uint64_t sum;

        if (__builtin_expect(shared, false))
                return atomic_fetch_add_explicit(number, n, memory_order_relaxed) + n;
        sum = atomic_load_explicit(number, memory_order_relaxed) + n;
        atomic_store_explicit(number, sum, memory_order_relaxed);
        return sum;
}

/* Fetches what counting will write, for a caller that has other work before it. As counters_count. */
static ALWAYS_INLINE void counters_prefetch(const struct counter *counter)
{
        __builtin_prefetch(atomic_load_explicit(&counter->board, memory_order_relaxed), 1);
}

/* Counts an allocation. The caller has the lock of the counter's heap, or for the default counter the pool's. */
static ALWAYS_INLINE void counters_count(struct counters *counters, struct counter *counter,
                                         enum counter_event event, uint64_t n_requested_bytes,
                                         uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&counter->board, memory_order_relaxed);
        bool shared = atomic_load_explicit(&counter->shared, memory_order_relaxed);
        uint64_t requested, allocated;

        (void)counter_add(event == COUNTER_HIT ? &board->hits : &board->misses, 1, shared);
        requested = counter_add(&board->requested, n_requested_bytes, shared);
        allocated = counter_add(&board->allocated, n_allocated_bytes, shared);
        if (requested > atomic_load_explicit(&counter->requested_mark, memory_order_relaxed) ||
            allocated > atomic_load_explicit(&counter->allocated_mark, memory_order_relaxed))
                counters_pass_mark(counters);
}

/* Counts a free. */
static ALWAYS_INLINE void counters_discount(const struct counter *counter,
                                            uint64_t n_requested_bytes, uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&counter->board, memory_order_relaxed);
        bool shared = atomic_load_explicit(&counter->shared, memory_order_relaxed);

        (void)counter_add(&board->requested, -n_requested_bytes, shared);
        (void)counter_add(&board->allocated, -n_allocated_bytes, shared);
}

/* Continues on another board; NULL: on `own`. The caller keeps all other threads from counting. */
void counters_move(struct counters *counters, struct board_pool *board);

void counters_reset_peaks(struct counters *counters);
