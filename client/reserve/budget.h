/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a pool's heaps may hold together: the peak of what is allocated, and a little more.
 *
 * The peak fades: memory above the present need is worth less the longer it was not needed, and another process may
 * need it. A pause counts little: a program that goes on after it needs what it needed before, and what is idle
 * meanwhile others may take. A heap whose holes do not fit its requests needs more than the peak, and would lease and
 * return blocks in turn. If blocks go back faster than a program can profit from it, the pool may hold a sixteenth of
 * the peak more, repeatedly, up to twice the peak. That fades, too, but slowly.
 *
 * Pure: the caller passes the time, without what leases and returns take, since only the program's own pace matters.
 * Not for two threads at once. */
#pragma once

#include <stdint.h>

struct budget {
        uint64_t n_peak_bytes;  /* the peak of allocated bytes, faded */
        uint64_t n_slack_bytes; /* above the peak, against leasing and returning in turn; faded */
        double n_churn;         /* blocks returned lately, faded */
        uint64_t faded_at_us;
        uint64_t half_life_us; /* of the peak */
        _Atomic uint64_t
                n_empty_max; /* empty bytes at most; UINT64_MAX: no separate bound; read by frees */
};

/* Half of what is held above the need fades in that time; in a loop in a longer one, which the caller may set. */
#define BUDGET_HALF_LIFE_US UINT64_C(250000)

/* Between two calls of budget_see no more than this counts as time. A program with many calls sees the
 * budget more often; one with few keeps its peak for longer. */
#define BUDGET_PAUSE_US UINT64_C(10000)

/* The same of the slack. */
#define BUDGET_SLACK_HALF_LIFE_US UINT64_C(10000000)

#define BUDGET_NULL \
        ((struct budget){.half_life_us = BUDGET_HALF_LIFE_US, .n_empty_max = UINT64_MAX})

/* So much is allocated now. Must be called often enough that peaks are seen. */
void budget_see(struct budget *budget, uint64_t n_allocated_bytes, uint64_t now_us);

/* A block is returned, at the time of the last budget_see. */
void budget_return(struct budget *budget);

/* A block is moved: for half of the driver's time of a return and a lease. */
void budget_move(struct budget *budget);

/* A request waited so long for work to end, instead of leasing more. */
void budget_wait(struct budget *budget, uint64_t us);

/* A loop misses blocks in each round: there may be a little slack more. */
void budget_loosen(struct budget *budget);

/* How much may be held. */
uint64_t budget_bytes(const struct budget *budget, uint64_t n_allocated_bytes);

/* The right size of blocks: a small part of the peak, so that blocks become empty and can go back; larger while
 * blocks come and go in turn, so that fewer do. It is bounded: one small allocation that is left in each block of a
 * large peak must not hold all of it. */
uint64_t budget_block_bytes(const struct budget *budget);

/* How much may be held before a request waits for work to end. */
uint64_t budget_hard_bytes(const struct budget *budget);
