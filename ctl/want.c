#include "ctl/want.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpumem.h"

bool want_is_of_memory(const struct event_row *row)
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
                return true;
        default:
                return row->reason != PROTO_REFUSED_OTHERWISE;
        }
}

static uint64_t less(uint64_t value, uint64_t n)
{
        return value > n ? value - n : 0;
}

uint64_t want_room(const struct stats_row *stats)
{
        uint64_t idle = stats->idle < stats->leased ? stats->idle : stats->leased;
        uint64_t in_use = stats->leased - idle;
        uint64_t room = less(less(stats->max, in_use), stats->lingering), on_device;

        if (stats->device_free == PROTO_FIGURE_UNKNOWN)
                return room;
        on_device = stats->device_free + stats->cached + idle;
        return on_device < room ? on_device : room;
}

uint64_t want_limit_room(const struct limit_row *limit)
{
        return less(limit->max, limit->used);
}

/* Of a holder's own row and the default the own one holds. */
static bool is_closer(const struct limit_row *row, const struct limit_row *found)
{
        bool is_own = row->holder != PROTO_LIMIT_OF_EACH;

        if (!found || (found->holder != PROTO_LIMIT_OF_EACH) != is_own)
                return !found || is_own;
        return want_limit_room(row) < want_limit_room(found);
}

static const struct limit_row *limit_of(const struct limit_row *rows, uint32_t n, uint32_t scope,
                                        uint32_t holder, uint32_t kind)
{
        const struct limit_row *found = NULL;

        for (uint32_t i = 0; i < n; i++) {
                if (rows[i].scope == scope && rows[i].kind == kind &&
                    (rows[i].holder == holder || rows[i].holder == PROTO_LIMIT_OF_EACH) &&
                    is_closer(&rows[i], found))
                        found = &rows[i];
        }
        return found && found->max != PROTO_LIMIT_NONE ? found : NULL;
}

const struct limit_row *want_limit(const struct limit_row *rows, uint32_t n,
                                   const struct event_row *refused, uint32_t pool_kind)
{
        uint32_t kind = pool_kind == GPUMEM_DEVICE ? PROTO_LIMIT_DEVICE_BYTES
                                                   : PROTO_LIMIT_PINNED_BYTES;
        const struct limit_row *of_client, *of_tenant;

        of_client = limit_of(rows, n, PROTO_LIMIT_OF_CLIENT, refused->pid, kind);
        of_tenant = limit_of(rows, n, PROTO_LIMIT_OF_TENANT, refused->uid, kind);
        if (!of_client || !of_tenant)
                return of_client ? of_client : of_tenant;
        return want_limit_room(of_client) < want_limit_room(of_tenant) ? of_client : of_tenant;
}

static const char *program_of(const struct want_rows *rows, uint32_t pid, uint32_t uid)
{
        static const char unknown[sizeof(rows->clients->program)] = "?";

        for (uint32_t i = 0; i < rows->n_clients; i++) {
                if (rows->clients[i].pid == pid && rows->clients[i].uid == uid)
                        return rows->clients[i].program;
        }
        return unknown;
}

static int compare_owners(const void *a, const void *b)
{
        const struct want_holder *one = a, *other = b;

        if (one->pid != other->pid)
                return one->pid < other->pid ? -1 : 1;
        return (one->uid > other->uid) - (one->uid < other->uid);
}

static int compare_sizes(const void *a, const void *b)
{
        const struct want_holder *one = a, *other = b;

        if (one->n_bytes != other->n_bytes)
                return one->n_bytes > other->n_bytes ? -1 : 1;
        return compare_owners(a, b);
}

static uint32_t take_blocks(const struct block_row *blocks, uint32_t n_blocks, uint32_t pool,
                            struct want_holder *all, struct want_holders *holders)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_blocks; i++) {
                if (blocks[i].pool != pool)
                        continue;
                if (blocks[i].state == LISTED_SUM)
                        holders->n_others_bytes += blocks[i].bytes;
                else if (blocks[i].pid)
                        all[n++] = (struct want_holder){.pid = blocks[i].pid,
                                                        .uid = blocks[i].uid,
                                                        .n_bytes = blocks[i].bytes};
        }
        return n;
}

/* One each, of those that stand beside each other. */
static uint32_t join(struct want_holder *all, uint32_t n)
{
        uint32_t n_joined = 0;

        for (uint32_t i = 0; i < n; i++) {
                if (n_joined && compare_owners(&all[n_joined - 1], &all[i]) == 0)
                        all[n_joined - 1].n_bytes += all[i].n_bytes;
                else
                        all[n_joined++] = all[i];
        }
        return n_joined;
}

int want_find_holders(const struct want_rows *rows, uint32_t pool, struct want_holders *ret_holders)
{
        struct want_holder *all = calloc((size_t)rows->n_blocks + 1, sizeof(*all));
        uint32_t n;

        if (!all)
                return -ENOMEM;
        *ret_holders = (struct want_holders){.n = 0};
        n = take_blocks(rows->blocks, rows->n_blocks, pool, all, ret_holders);
        qsort(all, n, sizeof(*all), compare_owners);
        n = join(all, n);
        qsort(all, n, sizeof(*all), compare_sizes);
        for (uint32_t i = 0; i < n; i++) {
                if (i >= WANT_N_HOLDERS) {
                        ret_holders->n_more_bytes += all[i].n_bytes;
                        continue;
                }
                memcpy(all[i].program, program_of(rows, all[i].pid, all[i].uid),
                       sizeof(all[i].program));
                ret_holders->largest[ret_holders->n++] = all[i];
        }
        free(all);
        return 0;
}
