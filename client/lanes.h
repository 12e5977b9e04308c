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

enum lane_event { LANE_HIT, LANE_MISS, LANE_FREE };

/* An allocation came or, with LANE_FREE, went. Under the lock of whom the lane is. */
void lanes_count(struct lanes *lanes, struct lane *lane, enum lane_event event,
                 uint64_t n_requested_bytes, uint64_t n_allocated_bytes);

/* Goes on there; NULL: on its own. The caller keeps everybody from counting. */
void lanes_move(struct lanes *lanes, struct board_pool *board);

void lanes_reset_peaks(struct lanes *lanes);
