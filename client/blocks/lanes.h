/* A client's counters of one pool, on the board, and their peaks.
 *
 * Every heap counts in a lane, under its own lock; while no two heaps share a lane that is a plain
 * store. The sum's peak is exact without adding up at each step: a lane may rise to its mark, and the
 * marks are set so that not even all of them together reach beyond the peak. Who passes his mark adds
 * up, raises the peak, and spreads anew what is between sum and peak. Only calls that are under way
 * at that moment can be missed. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/board.h"

struct lane {
        _Atomic(struct board_lane *) board;
        _Atomic uint64_t requested_mark;
        _Atomic uint64_t allocated_mark;
        uint32_t n_heaps; /* that count here; guarded by the pool's lock */
        _Atomic bool shared;
};

struct lanes {
        struct board_pool *board; /* or &own */
        struct board_pool own;    /* while there is no board for them */
        pthread_mutex_t peaks;    /* guards the peaks and the setting of marks */
        struct lane lanes[BOARD_LANES];
};

void lanes_init(struct lanes *lanes);
void lanes_deinit(struct lanes *lanes);

/* The lane with the fewest heaps. The first one is for what is in no heap, and never given. The
 * caller has the pool's lock, and keeps everybody from counting: a lane may become shared. */
struct lane *lanes_join(struct lanes *lanes);
void lanes_leave(struct lane *lane);

/* The lane for what is in no heap: its callers have the pool's lock. */
struct lane *lanes_own(struct lanes *lanes);

enum lane_event { LANE_HIT, LANE_MISS };

/* A lane rose above its mark. */
COLD void lanes_pass_mark(struct lanes *lanes);

static inline uint64_t lane_add(_Atomic uint64_t *number, uint64_t n, bool shared)
{
        uint64_t sum;

        if (__builtin_expect(shared, false))
                return atomic_fetch_add_explicit(number, n, memory_order_relaxed) + n;
        sum = atomic_load_explicit(number, memory_order_relaxed) + n;
        atomic_store_explicit(number, sum, memory_order_relaxed);
        return sum;
}

/* An allocation came. Under the lock of whom the lane is. */
static inline void lanes_count(struct lanes *lanes, struct lane *lane, enum lane_event event,
                               uint64_t n_requested_bytes, uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&lane->board, memory_order_relaxed);
        bool shared = atomic_load_explicit(&lane->shared, memory_order_relaxed);
        uint64_t requested, allocated;

        (void)lane_add(event == LANE_HIT ? &board->hits : &board->misses, 1, shared);
        requested = lane_add(&board->requested, n_requested_bytes, shared);
        allocated = lane_add(&board->allocated, n_allocated_bytes, shared);
        if (requested > atomic_load_explicit(&lane->requested_mark, memory_order_relaxed) ||
            allocated > atomic_load_explicit(&lane->allocated_mark, memory_order_relaxed))
                lanes_pass_mark(lanes);
}

/* One went. */
static inline void lanes_discount(const struct lane *lane, uint64_t n_requested_bytes,
                                  uint64_t n_allocated_bytes)
{
        struct board_lane *board = atomic_load_explicit(&lane->board, memory_order_relaxed);
        bool shared = atomic_load_explicit(&lane->shared, memory_order_relaxed);

        (void)lane_add(&board->requested, -n_requested_bytes, shared);
        (void)lane_add(&board->allocated, -n_allocated_bytes, shared);
}

/* Goes on there; NULL: on its own. The caller keeps everybody from counting. */
void lanes_move(struct lanes *lanes, struct board_pool *board);

void lanes_reset_peaks(struct lanes *lanes);
