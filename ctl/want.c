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

static bool is_of(const struct event_row *refused, uint32_t scope, uint32_t uid, uint32_t pid,
                  const char *container)
{
        return uid == refused->uid &&
               (scope == PROTO_LIMIT_OF_CLIENT
                        ? pid == refused->pid
                        : strncmp(container, refused->container, sizeof(refused->container)) == 0);
}

static uint64_t bytes_used(const struct want_rows *rows, const struct event_row *refused,
                           uint32_t scope, uint32_t kind)
{
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < rows->n_clients; i++) {
                const struct client_row *row = &rows->clients[i];

                if (is_of(refused, scope, row->uid, row->pid, row->container))
                        n_bytes += kind == PROTO_LIMIT_DEVICE_BYTES ? row->device_charged
                                                                    : row->pinned_charged;
        }
        return n_bytes;
}

static const char *container_of(const struct want_rows *rows, uint32_t uid, uint32_t pid)
{
        for (uint32_t i = 0; i < rows->n_clients; i++) {
                if (rows->clients[i].uid == uid && rows->clients[i].pid == pid)
                        return rows->clients[i].container;
        }
        return "";
}

/* About: what is attached is a lease, too. */
static uint64_t leases_used(const struct want_rows *rows, const struct event_row *refused,
                            uint32_t scope)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < rows->n_blocks; i++) {
                const struct block_row *row = &rows->blocks[i];

                if (row->pid && is_of(refused, scope, row->uid, row->pid,
                                      container_of(rows, row->uid, row->pid)))
                        n += row->blocks;
        }
        return n;
}

/* A default's row does not say what is used: that is another one's for each. */
static uint64_t used_of(const struct limit_row *limit, const struct want_rows *rows,
                        const struct event_row *refused)
{
        if (limit->holder != PROTO_LIMIT_OF_EACH)
                return limit->used;
        return limit->kind == PROTO_LIMIT_LEASES
                       ? leases_used(rows, refused, limit->scope)
                       : bytes_used(rows, refused, limit->scope, limit->kind);
}

/* Of a holder's own row and the default the own one holds. */
static bool is_closer(const struct limit_row *row, const struct limit_row *found)
{
        bool is_own = row->holder != PROTO_LIMIT_OF_EACH;

        if (!found || (found->holder != PROTO_LIMIT_OF_EACH) != is_own)
                return !found || is_own;
        return less(row->max, row->used) < less(found->max, found->used);
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

struct want_limit want_limit(const struct want_rows *rows, const struct event_row *refused,
                             uint32_t kind)
{
        const uint32_t scopes[] = {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_TENANT};
        struct want_limit found = {.row = NULL};

        for (unsigned i = 0; i < 2; i++) {
                const struct limit_row *row = limit_of(rows->limits, rows->n_limits, scopes[i],
                                                       i ? refused->uid : refused->pid, kind);
                uint64_t room = row ? less(row->max, used_of(row, rows, refused)) : 0;

                if (row && (!found.row || room < found.room))
                        found = (struct want_limit){row, room};
        }
        return found;
}

bool want_is_of_one(const struct event_row *row, const struct event_row *later)
{
        return row->pid == later->pid && row->uid == later->uid && row->pool == later->pool &&
               strncmp(row->container, later->container, sizeof(row->container)) == 0 &&
               row->first_age >= later->age && row->first_age - later->age <= WANT_OF_ONE_MS;
}

uint32_t want_join(struct event_row *rows, uint32_t n)
{
        uint32_t n_joined = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct event_row row = rows[i];
                uint32_t k = n_joined;

                while (k && !want_is_of_one(&rows[k - 1], &row))
                        k--;
                if (k) {
                        row.times += rows[k - 1].times;
                        row.first = rows[k - 1].first;
                        row.first_age = rows[k - 1].first_age;
                        memmove(&rows[k - 1], &rows[k], (n_joined - k) * sizeof(rows[0]));
                        n_joined--;
                }
                rows[n_joined++] = row;
        }
        return n_joined;
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
