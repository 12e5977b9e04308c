/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/top_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"

const char *top_sort_name(enum top_sort sort)
{
        static const char *const names[TOP_SORTS] = {
                [TOP_LEASED] = "leased", [TOP_IDLE] = "idle",       [TOP_LINGERING] = "lingering",
                [TOP_BLOCKS] = "blocks", [TOP_WAITING] = "waiting", [TOP_AGE] = "age",
                [TOP_PID] = "pid",       [TOP_PROGRAM] = "program",
        };

        return sort < TOP_SORTS ? names[sort] : NULL;
}

static int compare_owners(const void *left, const void *right)
{
        const struct top_row *a = left, *b = right;

        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        return (a->uid > b->uid) - (a->uid < b->uid);
}

static struct top_row from_block(const struct block_row *block)
{
        struct top_row row = {.pid = block->pid, .uid = block->uid, .age_ms = LISTING_UNTOLD};

        row.n_blocks = block->blocks;
        switch (block->state) {
        case LISTED_IDLE:
                row.n_idle = block->bytes;
                row.n_leased = block->bytes;
                break;
        case LISTED_LEASED:
                row.n_leased = block->bytes;
                break;
        case LISTED_LINGERING:
                row.n_lingering = block->bytes;
                break;
        default:
                break;
        }
        return row;
}

/* What it leases is known by its blocks; of other tenants there are sums here only. */
static struct top_row from_client(const struct client_row *client)
{
        struct top_row row = {
                .pid = client->pid,
                .uid = client->uid,
                .state = client->state,
                .n_waiting = client->device_waiting + client->pinned_waiting,
                .n_declared = client->device_declared + client->pinned_declared,
                .age_ms = client->connected,
                .program = client->program,
                .container = client->container,
        };

        if (client->state == LISTED_OTHERS) {
                row.n_leased = client->device_leased + client->pinned_leased;
                row.n_idle = client->device_idle + client->pinned_idle;
                row.n_lingering = client->device_lingering + client->pinned_lingering;
        }
        return row;
}

static void add(struct top_row *row, const struct top_row *other)
{
        row->n_leased += other->n_leased;
        row->n_idle += other->n_idle;
        row->n_lingering += other->n_lingering;
        row->n_declared += other->n_declared;
        row->n_blocks += other->n_blocks;
        row->n_waiting += other->n_waiting;
        if (!other->program)
                return;
        /* Of several connections of a process the oldest names it. */
        if (!row->program || other->age_ms > row->age_ms) {
                row->program = other->program;
                row->container = other->container;
                row->state = other->state;
                row->age_ms = other->age_ms;
        }
}

static unsigned merge(struct top_row *rows, unsigned n)
{
        unsigned n_merged = 0;

        qsort(rows, n, sizeof(*rows), compare_owners);
        for (unsigned i = 0; i < n; i++) {
                if (n_merged && compare_owners(&rows[n_merged - 1], &rows[i]) == 0)
                        add(&rows[n_merged - 1], &rows[i]);
                else
                        rows[n_merged++] = rows[i];
        }
        return n_merged;
}

/* The bars show blocks that are charged to no client; of one pool, clients without a block there have no row. */
static bool is_shown(const struct top_row *row, uint32_t pool)
{
        if (pool == PROTO_ALL_POOLS)
                return row->pid || row->program;
        return row->pid && row->n_blocks;
}

int top_rows_make(const struct block_row *blocks, uint32_t n_blocks,
                  const struct client_row *clients, uint32_t n_clients, uint32_t pool,
                  struct top_row **ret_rows, unsigned *ret_n)
{
        struct top_row *rows = calloc((size_t)n_blocks + n_clients + 1, sizeof(*rows));
        unsigned n = 0, n_shown = 0;

        if (!rows)
                return -ENOMEM;
        for (uint32_t i = 0; i < n_blocks; i++) {
                if (pool == PROTO_ALL_POOLS || blocks[i].pool == pool)
                        rows[n++] = from_block(&blocks[i]);
        }
        for (uint32_t i = 0; i < n_clients; i++)
                rows[n++] = from_client(&clients[i]);
        n = merge(rows, n);
        for (unsigned i = 0; i < n; i++) {
                if (is_shown(&rows[i], pool))
                        rows[n_shown++] = rows[i];
        }
        *ret_rows = rows;
        *ret_n = n_shown;
        return 0;
}

struct order {
        enum top_sort sort;
        bool is_reverse;
};

static uint64_t value_of(const struct top_row *row, enum top_sort sort)
{
        switch (sort) {
        case TOP_LEASED:
                return row->n_leased;
        case TOP_IDLE:
                return row->n_idle;
        case TOP_LINGERING:
                return row->n_lingering;
        case TOP_BLOCKS:
                return row->n_blocks;
        case TOP_WAITING:
                return row->n_waiting;
        case TOP_AGE:
                return row->age_ms == LISTING_UNTOLD ? 0 : row->age_ms;
        case TOP_PID:
        case TOP_PROGRAM:
        case TOP_SORTS:
                break;
        }
        return 0;
}

static int compare_names(const struct top_row *a, const struct top_row *b)
{
        return strcmp(a->program ? a->program : "", b->program ? b->program : "");
}

static int compare(const void *left, const void *right, void *context)
{
        const struct top_row *a = left, *b = right;
        const struct order *order = context;
        uint64_t of_a = value_of(a, order->sort), of_b = value_of(b, order->sort);
        int result = (of_a < of_b) - (of_a > of_b);

        if (order->sort == TOP_PROGRAM)
                result = compare_names(a, b);
        if (!result)
                result = compare_owners(a, b);
        return order->is_reverse ? -result : result;
}

void top_rows_sort(struct top_row *rows, unsigned n, enum top_sort sort, bool is_reverse)
{
        struct order order = {sort, is_reverse};

        qsort_r(rows, n, sizeof(*rows), compare, &order);
}

/* NVML does not know whose clients' memory of an earlier daemon is: they say so themselves. */
static uint64_t others_of(const struct stats_row *stats)
{
        if (stats->device_others == PROTO_FIGURE_UNKNOWN || stats->device_others < stats->declared)
                return 0;
        return stats->device_others - stats->declared;
}

uint64_t top_bar(const struct pool_row *pool, const struct stats_row *stats, unsigned n_cells,
                 unsigned cells[static TOP_PARTS])
{
        uint64_t whole = pool->kind == GPUMEM_DEVICE ? pool->n_capacity_bytes : stats->max;
        uint64_t idle = stats->idle < stats->leased ? stats->idle : stats->leased;
        uint64_t in_use = stats->leased - idle;
        const uint64_t parts[TOP_PARTS] = {
                [TOP_PART_USED] = in_use > UINT64_MAX - stats->declared ? UINT64_MAX
                                                                        : in_use + stats->declared,
                [TOP_PART_IDLE] = idle,
                [TOP_PART_CACHED] = stats->cached,
                [TOP_PART_LINGERING] = stats->lingering,
                [TOP_PART_OTHERS] = others_of(stats),
        };
        unsigned n_left = n_cells;

        for (unsigned i = 0; i < TOP_PARTS; i++) {
                double share = whole ? (double)parts[i] / (double)whole : 0;
                unsigned n = share < 1 ? (unsigned)(share * n_cells + 0.5) : n_cells;

                if (!n && parts[i])
                        n = 1;
                cells[i] = n < n_left ? n : n_left;
                n_left -= cells[i];
        }
        return whole;
}
