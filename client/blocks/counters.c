/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/counters.h"

#include <string.h>

void counters_init(struct counters *counters)
{
        memset(counters, 0, sizeof(*counters));
        pthread_mutex_init(&counters->peaks, NULL);
        counters->board = &counters->own;
        for (unsigned i = 0; i < BOARD_LANES; i++) {
                counters->counters[i].board = &counters->own.lanes[i];
                counters->counters[i].is_shared = i >= COUNTERS_OWN;
        }
}

void counters_deinit(struct counters *counters)
{
        pthread_mutex_destroy(&counters->peaks);
}

/* Threads' names are addresses of their stacks, at equal distances: the upper half of the product spreads most of them. */
static unsigned shared_number(pthread_t self)
{
        uint64_t upper = ((uint64_t)self >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 32;

        return COUNTERS_OWN + (unsigned)(upper * (BOARD_LANES - COUNTERS_OWN) >> 32);
}

struct counter *counters_of_other(struct counters *counters, pthread_t self)
{
        for (unsigned i = 0; i < COUNTERS_OWN; i++) {
                pthread_t none = 0;

                if (!atomic_load_explicit(&counters->owners[i], memory_order_relaxed) &&
                    atomic_compare_exchange_strong(&counters->owners[i], &none, self))
                        return &counters->counters[i];
        }
        return &counters->counters[shared_number(self)];
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
