/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/idle_patience.h"

#include "base/size.h"

/* The first one that is longer than the time between two looks. */
#define FIRST_US UINT64_C(6000)

/* A miss so many times the patience after what was noted last is not for its sake. */
#define SOON_TIMES 16

static uint64_t next_us(const struct idle_patience *patience)
{
        return patience->us ? size_smaller(2 * patience->us, IDLE_PATIENCE_MAX_US) : FIRST_US;
}

bool idle_patience_is_over(const struct idle_patience *patience, uint64_t now_us)
{
        return now_us >= patience->marked_at_us + patience->us;
}

void idle_patience_mark(struct idle_patience *patience, uint64_t now_us)
{
        patience->marked_at_us = now_us;
}

void idle_patience_put(struct idle_patience *patience, uint64_t now_us)
{
        patience->noted_at_us = now_us;
        patience->has_put = true;
}

static bool are_many(uint32_t *n)
{
        if (++*n < IDLE_PATIENCE_MISSES)
                return false;
        *n = 0;
        return true;
}

bool idle_patience_miss(struct idle_patience *patience, uint64_t now_us)
{
        bool has_put = patience->has_put;

        if (now_us > patience->noted_at_us + SOON_TIMES * next_us(patience))
                patience->n_misses = patience->n_others = 0;
        else if (has_put && are_many(&patience->n_misses))
                patience->us = next_us(patience);
        else if (!has_put && patience->us && are_many(&patience->n_others))
                return true;
        patience->has_put = false;
        patience->noted_at_us = now_us;
        return false;
}

void idle_patience_end(struct idle_patience *patience)
{
        *patience = (struct idle_patience){.us = 0};
}
