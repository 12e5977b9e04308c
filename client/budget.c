#include "client/budget.h"

#include <math.h>

/* Above the peak: 1/32, so that a heap grows in steps; 1/12 when only waiting would help. */
#define SLACK_SHIFT  5
#define HARD_DIVISOR 12

void budget_see(struct budget *budget, uint64_t n_allocated_bytes, uint64_t now_us)
{
        double n_above;

        if (budget->n_peak_bytes > n_allocated_bytes && now_us > budget->faded_at_us) {
                n_above = (double)(budget->n_peak_bytes - n_allocated_bytes) *
                          exp2(-(double)(now_us - budget->faded_at_us) /
                               (double)BUDGET_HALF_LIFE_US);
                budget->n_peak_bytes = n_allocated_bytes + (uint64_t)n_above;
        }
        if (n_allocated_bytes > budget->n_peak_bytes)
                budget->n_peak_bytes = n_allocated_bytes;
        budget->faded_at_us = now_us;
}

uint64_t budget_bytes(const struct budget *budget, uint64_t n_allocated_bytes)
{
        uint64_t n_bytes = budget->n_peak_bytes + (budget->n_peak_bytes >> SLACK_SHIFT);

        if (budget->n_empty_max < n_bytes && n_bytes - budget->n_empty_max > n_allocated_bytes)
                n_bytes = n_allocated_bytes + budget->n_empty_max;
        return n_bytes;
}

uint64_t budget_hard_bytes(const struct budget *budget)
{
        return budget->n_peak_bytes + budget->n_peak_bytes / HARD_DIVISOR;
}
