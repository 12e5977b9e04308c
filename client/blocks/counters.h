/* SPDX-License-Identifier: Apache-2.0 */
/* A client's counters of one pool, on the board, and their peaks.
 *
 * Each thread counts in its own counter, by a plain store, if it is one of the first COUNTERS_OWN that count. Others share
 * the rest of the counters. One thread frees what another one has allocated, so a counter may be below 0; their sum is
 * not. Each count is made under a lock: its heap's, or the pool's for memory that is in no heap.
 *
 * The peak of the sum is exact, though it is not computed at each step. Each counter has a mark up to which it may
 * rise. The marks are set so that all counters together cannot exceed the peak. A counter that passes its mark
 * recomputes the sum, raises the peak, and redistributes the difference between them. Only calls that are under way
 * at that moment can be missed. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/board.h"

#define COUNTERS_OWN 4

struct counter {
        _Atomic(struct board_lane *) board;
        _Atomic uint64_t requested_mark;
        _Atomic uint64_t allocated_mark;
        bool is_shared; /* by threads */
};

struct counters {
        struct board_pool *board; /* or &own */
        struct board_pool own;    /* used while there is no board */
        pthread_mutex_t peaks;    /* guards the peaks and the setting of marks */
        /* The thread that has the counter of that number, for good; 0: none yet. After its end a new thread may have its
         * name, and then has its counter. */
        _Atomic(pthread_t) owners[COUNTERS_OWN];
        struct counter counters[BOARD_LANES];
};

void counters_init(struct counters *counters);
void counters_deinit(struct counters *counters);

/* The counter of a thread that is no owner: its own from now on, while one is left, or a shared one. */
COLD struct counter *counters_of_other(struct counters *counters, pthread_t self);

/* The calling thread's counter. */
static ALWAYS_INLINE struct counter *counters_mine(struct counters *counters)
{
        pthread_t self = pthread_self();

        for (unsigned i = 0; i < COUNTERS_OWN; i++) {
                if (atomic_load_explicit(&counters->owners[i], memory_order_relaxed) == self)
                        return &counters->counters[i];
        }
        return counters_of_other(counters, self);
}

enum counter_event { COUNTER_HIT, COUNTER_MISS };

/* A counter rose above its mark. */
COLD void counters_pass_mark(struct counters *counters);

static ALWAYS_INLINE uint64_t counter_add(_Atomic uint64_t *number, uint64_t n, bool is_shared)
{
        uint64_t sum;

        if (__builtin_expect(is_shared, false))
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

static ALWAYS_INLINE bool counter_is_above(uint64_t n, const _Atomic uint64_t *mark)
{
        return (int64_t)n > (int64_t)atomic_load_explicit(mark, memory_order_relaxed);
}

/* Counts an allocation, in the calling thread's counter. */
static ALWAYS_INLINE void counters_count(struct counters *counters, struct counter *counter,
                                         enum counter_event event, uint64_t n_requested_bytes,
                                         uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&counter->board, memory_order_relaxed);
        bool is_shared = counter->is_shared;
        uint64_t requested, allocated;

        (void)counter_add(event == COUNTER_HIT ? &board->hits : &board->misses, 1, is_shared);
        requested = counter_add(&board->requested, n_requested_bytes, is_shared);
        allocated = counter_add(&board->allocated, n_allocated_bytes, is_shared);
        if (counter_is_above(requested, &counter->requested_mark) ||
            counter_is_above(allocated, &counter->allocated_mark))
                counters_pass_mark(counters);
}

/* Counts a free, in the calling thread's counter. */
static ALWAYS_INLINE void counters_discount(const struct counter *counter,
                                            uint64_t n_requested_bytes, uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&counter->board, memory_order_relaxed);

        (void)counter_add(&board->requested, -n_requested_bytes, counter->is_shared);
        (void)counter_add(&board->allocated, -n_allocated_bytes, counter->is_shared);
}

/* Continues on another board; NULL: on `own`. The caller keeps all other threads from counting. */
void counters_move(struct counters *counters, struct board_pool *board);

void counters_reset_peaks(struct counters *counters);
