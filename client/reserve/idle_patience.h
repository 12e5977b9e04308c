/* SPDX-License-Identifier: Apache-2.0 */
/* How long a block stays unused in its heap before it goes to the idle list (idle_list.h).
 *
 * At first it goes as soon as two looks have found it idle. A loop that is longer than that needs it again in its next
 * round. While it was away, allocations went to other places than in the round before, and now they fit less well. So
 * a loop that repeats itself exactly leases and moves blocks in each round, though it holds enough memory. After
 * IDLE_PATIENCE_MISSES such requests the time doubles, until they end. Then it is longer than the loop, whose blocks
 * stay, and whose rounds are served alike.
 *
 * As soon as another process lacks memory the time is short again: see idle_patience_end.
 *
 * Pure: the caller passes the time. Not for two threads at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct idle_patience {
        uint64_t us; /* between two marks; 0: each look marks */
        uint64_t marked_at_us;
        uint64_t noted_at_us; /* the last put, or miss */
        uint32_t n_misses;    /* after blocks went */
        uint32_t n_others;    /* misses in a loop, for whose sake none had gone */
        bool has_put;         /* since the last miss */
};

/* What a round of a loop takes longer is worth the leases and moves in it. */
#define IDLE_PATIENCE_MAX_US UINT64_C(128000)

#define IDLE_PATIENCE_MISSES 16

/* May blocks go to the idle list, and be marked to go there next time? */
bool idle_patience_is_over(const struct idle_patience *patience, uint64_t now_us);

/* They were marked. */
void idle_patience_mark(struct idle_patience *patience, uint64_t now_us);

/* Blocks went to the idle list. */
void idle_patience_put(struct idle_patience *patience, uint64_t now_us);

/* A request needs blocks that must be leased or moved, though there is enough memory in other places. Returns whether
 * IDLE_PATIENCE_MISSES did since the time was longer than the loop: then it needs more memory. */
bool idle_patience_miss(struct idle_patience *patience, uint64_t now_us);

/* Others need memory: the next look marks. */
void idle_patience_end(struct idle_patience *patience);
