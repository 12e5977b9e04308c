/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/idle_patience.h"

#include "base/size.h"

/* The first one that is longer than the time between two looks. */
#define FIRST_US UINT64_C(6000)

/* A miss so many times the patience after blocks went is not for their sake. */
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
        patience->put_at_us = now_us;
        patience->has_put = true;
}

void idle_patience_miss(struct idle_patience *patience, uint64_t now_us)
{
        if (!patience->has_put)
                return;
        patience->has_put = false;
        if (now_us > patience->put_at_us + SOON_TIMES * next_us(patience)) {
                patience->n_misses = 0;
                return;
        }
        if (++patience->n_misses < IDLE_PATIENCE_MISSES)
                return;
        patience->n_misses = 0;
        patience->us = next_us(patience);
}

void idle_patience_end(struct idle_patience *patience)
{
        *patience = (struct idle_patience){.us = 0};
}
