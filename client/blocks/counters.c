/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/counters.h"

#include <string.h>

void counters_init(struct counters *counters)
{
        memset(counters, 0, sizeof(*counters));
        pthread_mutex_init(&counters->peaks, NULL);
        counters->board = &counters->own;
        for (unsigned i = 0; i < BOARD_LANES; i++)
                counters->counters[i].board = &counters->own.lanes[i];
}

void counters_deinit(struct counters *counters)
{
        pthread_mutex_destroy(&counters->peaks);
}

struct counter *counters_default(struct counters *counters)
{
        return &counters->counters[0];
}

struct counter *counters_join(struct counters *counters)
{
        struct counter *best = &counters->counters[1];

        for (unsigned i = 2; i < BOARD_LANES; i++) {
                if (counters->counters[i].n_heaps < best->n_heaps)
                        best = &counters->counters[i];
        }
        /* Two heaps count there: a plain store of one could undo a store of the other. */
        if (best->n_heaps++)
                best->shared = true;
        return best;
}

void counters_leave(struct counter *counter)
{
        counter->n_heaps--;
}

static uint64_t load(const _Atomic uint64_t *number)
{
        return atomic_load_explicit(number, memory_order_relaxed);
}

static void raise_peak(_Atomic uint64_t *peak, uint64_t sum)
{
        if (sum > load(peak))
                atomic_store_explicit(peak, sum, memory_order_relaxed);
}

/* Gives each counter the same part of the difference between the sum and the peak. */
static void spread(struct counters *counters, const struct board_sums *sums)
{
        uint64_t n_requested = (load(&counters->board->requested_peak) - sums->requested) /
                               BOARD_LANES;
        uint64_t n_allocated = (load(&counters->board->allocated_peak) - sums->allocated) /
                               BOARD_LANES;

        for (unsigned i = 0; i < BOARD_LANES; i++) {
                struct counter *counter = &counters->counters[i];
                struct board_lane *board = counter->board;

                atomic_store_explicit(&counter->requested_mark,
                                      load(&board->requested) + n_requested, memory_order_relaxed);
                atomic_store_explicit(&counter->allocated_mark,
                                      load(&board->allocated) + n_allocated, memory_order_relaxed);
        }
}

void counters_pass_mark(struct counters *counters)
{
        struct board_sums sums;

        pthread_mutex_lock(&counters->peaks);
        sums = board_sum(counters->board);
        raise_peak(&counters->board->requested_peak, sums.requested);
        raise_peak(&counters->board->allocated_peak, sums.allocated);
        spread(counters, &sums);
        pthread_mutex_unlock(&counters->peaks);
}

void counters_move(struct counters *counters, struct board_pool *board)
{
        struct board_pool *from = counters->board, *to = board ? board : &counters->own;

        if (from == to)
                return;
        pthread_mutex_lock(&counters->peaks);
        to->requested_peak = load(&from->requested_peak);
        to->allocated_peak = load(&from->allocated_peak);
        for (unsigned i = 0; i < BOARD_LANES; i++) {
                to->lanes[i].requested = load(&from->lanes[i].requested);
                to->lanes[i].allocated = load(&from->lanes[i].allocated);
                to->lanes[i].hits = load(&from->lanes[i].hits);
                to->lanes[i].misses = load(&from->lanes[i].misses);
                counters->counters[i].board = &to->lanes[i];
        }
        counters->board = to;
        pthread_mutex_unlock(&counters->peaks);
}

void counters_reset_peaks(struct counters *counters)
{
        struct board_sums sums;

        pthread_mutex_lock(&counters->peaks);
        sums = board_sum(counters->board);
        counters->board->requested_peak = sums.requested;
        counters->board->allocated_peak = sums.allocated;
        spread(counters, &sums);
        pthread_mutex_unlock(&counters->peaks);
}
