/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/oom_join.h"

#include <string.h>

#include "gpumem.h"

bool oom_is_of_memory(const struct event_row *row)
{
        if (row->what != LISTED_EVENT_REFUSED || row->event == 0)
                return false;
        switch (row->code) {
        case GPUMEM_E_REFUSED:
        case GPUMEM_E_LIMIT:
        case GPUMEM_E_TOO_LARGE:
        case GPUMEM_E_DEVICE_FULL:
        case GPUMEM_E_TIMED_OUT:
        case GPUMEM_E_TOO_MANY:
        case GPUMEM_E_STALLED:
        case GPUMEM_E_DRIVER:
        case GPUMEM_E_DENIED:
        case GPUMEM_E_SHUTTING_DOWN:
                return true;
        default:
                return row->reason != PROTO_REFUSED_OTHERWISE;
        }
}

static uint64_t less(uint64_t value, uint64_t n)
{
        return value > n ? value - n : 0;
}

uint64_t oom_room(const struct stats_row *stats)
{
        uint64_t idle = stats->idle < stats->leased ? stats->idle : stats->leased;
        uint64_t in_use = stats->leased - idle;
        uint64_t room = less(less(stats->max, in_use), stats->lingering), on_device;

        if (stats->driver == PROTO_DRIVER_LOST)
                return 0;
        if (stats->driver == PROTO_DRIVER_STALLED)
                return stats->cached + idle;
        if (stats->device_free == PROTO_FIGURE_UNKNOWN)
                return room;
        on_device = stats->device_free + stats->cached + idle;
        return on_device < room ? on_device : room;
}

static bool has_same_reason(const struct event_row *row, const struct event_row *later)
{
        if (row->reason != later->reason)
                return false;
        return row->reason != PROTO_REFUSED_OTHERWISE || row->code == later->code;
}

/* Rows without a pid may be of different processes. */
static bool is_of_one(const struct event_row *row, const struct event_row *later)
{
        return row->pid && row->pid == later->pid && row->uid == later->uid &&
               row->pool == later->pool &&
               strncmp(row->container, later->container, sizeof(row->container)) == 0 &&
               has_same_reason(row, later) && row->first_age >= later->age &&
               row->first_age - later->age <= OOM_OF_ONE_MS;
}

uint32_t oom_join(struct event_row *rows, uint32_t n)
{
        uint32_t n_joined = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct event_row row = rows[i];
                uint32_t k = n_joined;

                while (k && !is_of_one(&rows[k - 1], &row))
                        k--;
                if (k) {
                        row.times += rows[k - 1].times;
                        if (rows[k - 1].least < row.least)
                                row.least = rows[k - 1].least;
                        if (rows[k - 1].most > row.most)
                                row.most = rows[k - 1].most;
                        row.first = rows[k - 1].first;
                        row.first_age = rows[k - 1].first_age;
                        memmove(&rows[k - 1], &rows[k], (n_joined - k) * sizeof(rows[0]));
                        n_joined--;
                }
                rows[n_joined++] = row;
        }
        return n_joined;
}
