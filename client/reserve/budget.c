/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/budget.h"

#include <math.h>

#include "base/size.h"

/* Above the peak: 1/32, so that a heap grows in steps; 1/12 if the alternative is to wait. */
#define STEP_PART 32
#define HARD_PART 12

/* A block's part of the peak, and of the slack, and how large it becomes by each. */
#define BLOCK_PEAK_PART  1024
#define BLOCK_SLACK_PART 16
#define BLOCK_PEAK_MAX   (16 * MIB)
#define BLOCK_SLACK_MAX  (32 * MIB)

/* Against leasing and returning in turn. So many faded returns are one each 180 us; the programs whose traces are in
 * bench/ come to half of it at most. */
#define CHURN_HALF_LIFE_US UINT64_C(50000)
#define PAUSE_PART         64 /* of a pause counts this part, besides BUDGET_PAUSE_US */
#define CHURN_MANY         400
#define SLACK_PART         16
#define MOVE_RETURNS       0.7

/* A wait of so many us counts as a return. So a program that waits for an 18th of its time comes to CHURN_MANY, and
 * may hold an eighth of the peak more. FSDP on two H200s waited 7 ms of each step of 24. */
#define WAIT_US         10
#define WAIT_SLACK_PART 8

/* Of a loop: an eighth of the peak, in so many steps. */
#define LOOP_SLACK_PART  8
#define LOOP_SLACK_STEPS 8

static double part_left(uint64_t us, uint64_t half_life_us)
{
        return exp2(-(double)us / (double)half_life_us);
}

static uint64_t fade(uint64_t n_bytes, uint64_t us, uint64_t half_life_us)
{
        return (uint64_t)((double)n_bytes * part_left(us, half_life_us));
}

void budget_see(struct budget *budget, uint64_t n_allocated_bytes, uint64_t now_us)
{
        uint64_t us = now_us > budget->faded_at_us ? now_us - budget->faded_at_us : 0;
        uint64_t n_counted_us = us < BUDGET_PAUSE_US ? us : BUDGET_PAUSE_US;

        if (us) {
                budget->faded_at_us = now_us;
                budget->n_churn *= part_left(n_counted_us + (us - n_counted_us) / PAUSE_PART,
                                             CHURN_HALF_LIFE_US);
                budget->n_slack_bytes = fade(budget->n_slack_bytes, n_counted_us,
                                             BUDGET_SLACK_HALF_LIFE_US);
        }
        if (us && budget->n_peak_bytes > n_allocated_bytes)
                budget->n_peak_bytes = n_allocated_bytes +
                                       fade(budget->n_peak_bytes - n_allocated_bytes, n_counted_us,
                                            budget->half_life_us);
        if (n_allocated_bytes > budget->n_peak_bytes)
                budget->n_peak_bytes = n_allocated_bytes;
}

/* Once there are many returns, there may be n_more_bytes of slack more, up to n_most_bytes. */
static void churn(struct budget *budget, double n_returns, uint64_t n_more_bytes,
                  uint64_t n_most_bytes)
{
        budget->n_churn += n_returns;
        if (budget->n_churn < CHURN_MANY)
                return;
        budget->n_churn = 0;
        budget->n_slack_bytes += n_more_bytes;
        if (budget->n_slack_bytes > n_most_bytes)
                budget->n_slack_bytes = n_most_bytes;
}

void budget_return(struct budget *budget)
{
        churn(budget, 1, budget->n_peak_bytes / SLACK_PART, budget->n_peak_bytes);
}

void budget_move(struct budget *budget)
{
        churn(budget, MOVE_RETURNS, budget->n_peak_bytes / SLACK_PART, budget->n_peak_bytes);
}

void budget_wait(struct budget *budget, uint64_t us)
{
        uint64_t n_most_bytes = budget->n_peak_bytes / WAIT_SLACK_PART;

        if (budget->n_slack_bytes < n_most_bytes)
                churn(budget, (double)us / WAIT_US, n_most_bytes, n_most_bytes);
}

void budget_loosen(struct budget *budget)
{
        uint64_t n_most_bytes = budget->n_peak_bytes / LOOP_SLACK_PART;

        if (budget->n_slack_bytes < n_most_bytes)
                budget->n_slack_bytes = size_smaller(
                        n_most_bytes, budget->n_slack_bytes + n_most_bytes / LOOP_SLACK_STEPS);
}

uint64_t budget_bytes(const struct budget *budget, uint64_t n_allocated_bytes)
{
        uint64_t n_bytes = budget->n_peak_bytes + budget->n_peak_bytes / STEP_PART +
                           budget->n_slack_bytes;

        if (budget->n_empty_max < n_bytes && n_bytes - budget->n_empty_max > n_allocated_bytes)
                n_bytes = n_allocated_bytes + budget->n_empty_max;
        return n_bytes;
}

uint64_t budget_hard_bytes(const struct budget *budget)
{
        return budget->n_peak_bytes + budget->n_peak_bytes / HARD_PART + budget->n_slack_bytes;
}

static uint64_t part_of(uint64_t n_bytes, unsigned part, uint64_t n_max_bytes)
{
        return n_bytes / part < n_max_bytes ? n_bytes / part : n_max_bytes;
}

uint64_t budget_block_bytes(const struct budget *budget)
{
        uint64_t of_peak = part_of(budget->n_peak_bytes, BLOCK_PEAK_PART, BLOCK_PEAK_MAX);
        uint64_t of_slack = part_of(budget->n_slack_bytes, BLOCK_SLACK_PART, BLOCK_SLACK_MAX);

        return of_peak > of_slack ? of_peak : of_slack;
}
