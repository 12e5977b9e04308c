/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/memory/interval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first interval that ends above `address`. */
static size_t index_above(const struct intervals *intervals, uint64_t address)
{
        size_t low = 0, high = intervals->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (interval_end(intervals->items[middle]) <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct interval *intervals_first_in(const struct intervals *intervals, uint64_t base,
                                    uint64_t n_bytes)
{
        size_t index = index_above(intervals, base);

        if (index == intervals->n || intervals->items[index]->base >= base + n_bytes)
                return NULL;
        return intervals->items[index];
}

struct interval *intervals_find(const struct intervals *intervals, uint64_t address)
{
        return intervals_first_in(intervals, address, 1);
}

int intervals_insert(struct intervals *intervals, struct interval *interval)
{
        size_t index = index_above(intervals, interval->base);

        if (intervals_first_in(intervals, interval->base, interval->n_bytes))
                return -EEXIST;
        if (intervals->n == intervals->room) {
                size_t room = intervals->room ? intervals->room * 2 : 16;
                struct interval **items = reallocarray(intervals->items, room,
                                                       sizeof(struct interval *));

                if (!items)
                        return -ENOMEM;
                intervals->items = items;
                intervals->room = room;
        }
        memmove(intervals->items + index + 1, intervals->items + index,
                (intervals->n - index) * sizeof(struct interval *));
        intervals->items[index] = interval;
        intervals->n++;
        return 0;
}

void intervals_remove(struct intervals *intervals, const struct interval *interval)
{
        size_t index = index_above(intervals, interval->base);

        if (index == intervals->n || intervals->items[index] != interval)
                return;
        intervals->n--;
        memmove(intervals->items + index, intervals->items + index + 1,
                (intervals->n - index) * sizeof(struct interval *));
}
