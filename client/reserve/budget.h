/* SPDX-License-Identifier: Apache-2.0 */
/* How much a pool's heaps may hold, all together: what is allocated at the peak, and a little more.
 *
 * The peak fades: what is held above the present need is worth less the longer it was not needed, and another process
 * may need it. A heap whose holes do not fit its requests needs more than the peak, and would lease and return at every
 * turn: when blocks go back faster than a program can be helped by it, it may hold a quarter of the peak more, up to
 * twice the peak; that fades too, but slowly. Pure: time comes from the caller, who leaves out what leases and returns
 * take: it is the program's own pace that is looked at. Not for two threads at once. */
#pragma once

#include <stdint.h>

struct budget {
        uint64_t n_peak_bytes;  /* allocated, faded */
        uint64_t n_slack_bytes; /* above the peak, against leasing and returning in turn; faded */
        double n_churn;         /* blocks returned lately, faded */
        uint64_t faded_at_us;
        uint64_t n_empty_max; /* bytes that no allocation needs; UINT64_MAX: no bound of its own */
};

/* Of what is held above the need, half goes in as long. */
#define BUDGET_HALF_LIFE_US UINT64_C(50000)

/* Of what is held against leasing and returning in turn. */
#define BUDGET_SLACK_HALF_LIFE_US UINT64_C(10000000)

#define BUDGET_NULL ((struct budget){.n_empty_max = UINT64_MAX})

/* So much is allocated now. To be told often enough that peaks are seen. */
void budget_see(struct budget *budget, uint64_t n_allocated_bytes, uint64_t now_us);

/* A block goes back, at the time of the last budget_see. */
void budget_return(struct budget *budget);

/* A request waited so long for work to end, rather than hold more. */
void budget_wait(struct budget *budget, uint64_t us);

/* What may be held for the peak. */
uint64_t budget_bytes(const struct budget *budget, uint64_t n_allocated_bytes);

/* The size of blocks that suits it: a small part of the peak, so that what becomes empty can go back; larger while
 * blocks come and go in turn, so that fewer do. */
uint64_t budget_block_bytes(const struct budget *budget);

/* What may be held rather than wait for work to end. */
uint64_t budget_hard_bytes(const struct budget *budget);
