/* SPDX-License-Identifier: Apache-2.0 */
/* What a client holds: statistics, once, by name or at intervals; counts by tag; and what a pointer is. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/blocks/binding.h"
#include "client/connection/reconnect.h"
#include "client/connection/rows.h"
#include "client/pool/shared_alloc.h"
#include "proto/messages.h"

/* Memory that is allocated while this is read may be counted twice, or not at all; more may be used than a limit that
 * came later. */
static uint64_t less(uint64_t n, uint64_t n_off)
{
        return n > n_off ? n - n_off : 0;
}

/* What follows from the sums of the heaps. */
static void derive(struct gpumem_stats *stats, const struct pool *pool,
                   const struct heap_set_sums *held)
{
        uint64_t n_live = held->n_live + pool->n_alone;

        stats->n_free_bytes = less(stats->n_reserved_bytes,
                                   stats->n_allocated_bytes + pool->n_alone_rest_bytes);
        stats->n_cached_bytes = held->n_idle_bytes;
        stats->n_cached_blocks = held->n_idle_blocks;
        stats->n_inactive_split_bytes = less(stats->n_free_bytes, held->n_idle_bytes);
        stats->n_largest_free_bytes = held->n_largest_free_bytes;
        stats->n_free_extents = held->n_free_extents;
        stats->n_live = n_live;
        stats->n_allocations = stats->n_hits + stats->n_misses;
        stats->n_frees = less(stats->n_allocations, n_live);
        stats->n_splits = held->n_splits;
        stats->n_merges = held->n_merges;
        if (stats->n_free_bytes > stats->n_largest_free_bytes)
                stats->fragmentation = 1 - (double)stats->n_largest_free_bytes /
                                                   (double)stats->n_free_bytes;
}

static void read_stats(struct pool *pool, struct gpumem_stats *ret_stats)
{
        struct heap_set_sums held;
        struct board_sums sums;

        pthread_mutex_lock(&pool->lock);
        sums = board_sum(pool->counters.board);
        heap_set_sum(&pool->heap_set, &held);
        *ret_stats = (struct gpumem_stats){
                .n_requested_bytes = sums.requested,
                .n_requested_peak_bytes = atomic_load(&pool->counters.board->requested_peak),
                .n_allocated_bytes = sums.allocated,
                .n_allocated_peak_bytes = atomic_load(&pool->counters.board->allocated_peak),
                .n_reserved_bytes = pool->n_reserved_bytes,
                .n_reserved_peak_bytes = pool->n_reserved_peak_bytes,
                .n_hits = sums.hits,
                .n_misses = sums.misses,
                .n_blocks = pool->n_blocks,
                .n_limit_bytes = pool->limit.n_max_bytes,
                .n_cache_limit_bytes = pool->heap_set.budget.n_empty_max,
        };
        derive(ret_stats, pool, &held);
        pthread_mutex_unlock(&pool->lock);
}

int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct gpumem_stats *ret_stats)
{
        size_t n_bytes = ret_stats->struct_size;
        struct gpumem_stats stats;
        struct pool *pool;
        int r = check_struct(n_bytes, sizeof(stats));

        if (!r)
                r = client_find_pool(client, kind, place, &pool);
        if (r)
                return r;
        read_stats(pool, &stats);
        stats.struct_size = n_bytes;
        memcpy(ret_stats, &stats, n_bytes);
        return 0;
}

int gpumem_reset_peaks(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        struct pool *pool;
        int r = client_find_pool(client, kind, place, &pool);

        if (!r)
                pool_reset_peaks(pool);
        return r;
}

/* The whole numbers of gpumem_stats, and the counts of events. */
static const struct {
        const char *name;
        size_t offset;
} stats_figures[] = {
        {"requested_bytes", offsetof(struct gpumem_stats, n_requested_bytes)},
        {"requested_peak_bytes", offsetof(struct gpumem_stats, n_requested_peak_bytes)},
        {"allocated_bytes", offsetof(struct gpumem_stats, n_allocated_bytes)},
        {"allocated_peak_bytes", offsetof(struct gpumem_stats, n_allocated_peak_bytes)},
        {"reserved_bytes", offsetof(struct gpumem_stats, n_reserved_bytes)},
        {"reserved_peak_bytes", offsetof(struct gpumem_stats, n_reserved_peak_bytes)},
        {"hits", offsetof(struct gpumem_stats, n_hits)},
        {"misses", offsetof(struct gpumem_stats, n_misses)},
        {"blocks", offsetof(struct gpumem_stats, n_blocks)},
        {"splits", offsetof(struct gpumem_stats, n_splits)},
        {"merges", offsetof(struct gpumem_stats, n_merges)},
        {"free_bytes", offsetof(struct gpumem_stats, n_free_bytes)},
        {"inactive_split_bytes", offsetof(struct gpumem_stats, n_inactive_split_bytes)},
        {"cached_bytes", offsetof(struct gpumem_stats, n_cached_bytes)},
        {"cached_blocks", offsetof(struct gpumem_stats, n_cached_blocks)},
        {"largest_free_bytes", offsetof(struct gpumem_stats, n_largest_free_bytes)},
        {"free_extents", offsetof(struct gpumem_stats, n_free_extents)},
        {"live", offsetof(struct gpumem_stats, n_live)},
        {"allocations", offsetof(struct gpumem_stats, n_allocations)},
        {"frees", offsetof(struct gpumem_stats, n_frees)},
        {"limit_bytes", offsetof(struct gpumem_stats, n_limit_bytes)},
        {"cache_limit_bytes", offsetof(struct gpumem_stats, n_cache_limit_bytes)},
};

static const struct {
        const char *name;
        enum gpumem_event_kind kind;
} event_figures[] = {
        {"pressures", GPUMEM_EVENT_PRESSURE},
        {"refusals", GPUMEM_EVENT_REFUSED},
        {"revocations", GPUMEM_EVENT_REVOKED},
};

#define N_FIGURES (ARRAY_SIZE(stats_figures) + ARRAY_SIZE(event_figures))

static uint64_t count_events(struct gpumem_client *client, enum gpumem_event_kind kind)
{
        return atomic_load_explicit(&client->events.n_noted[kind], memory_order_acquire);
}

static uint64_t read_figure(struct gpumem_client *client, const struct gpumem_stats *stats,
                            size_t index, const char **ret_name)
{
        const char *bytes = (const char *)stats;
        uint64_t value;

        if (index < ARRAY_SIZE(stats_figures)) {
                memcpy(&value, bytes + stats_figures[index].offset, sizeof(value));
                *ret_name = stats_figures[index].name;
                return value;
        }
        index -= ARRAY_SIZE(stats_figures);
        *ret_name = event_figures[index].name;
        return count_events(client, event_figures[index].kind);
}

static int find_row(struct pool *pool, uint64_t serial, const struct stats_row *rows, uint32_t n,
                    struct stats_row *ret_row)
{
        uint32_t id;
        int r = binding_find(pool, serial, &id);

        if (r)
                return r;
        for (uint32_t i = 0; i < n; i++) {
                if (rows[i].pool != id)
                        continue;
                *ret_row = rows[i];
                return 0;
        }
        return GPUMEM_E_NO_POOL;
}

static int ask_row(struct gpumem_client *client, struct pool *pool, struct stats_row *ret_row)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint64_t serial;
        void *rows;
        int r = reconnect_call(&client->reconnector, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY,
                               &reply, &fds, &serial);

        if (!r)
                r = rows_read(fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes,
                              sizeof(*ret_row), &rows);
        if (r)
                return r;
        r = find_row(pool, serial, rows, reply.stats_reply.n_rows, ret_row);
        free(rows);
        return r;
}

static uint64_t at_most(uint64_t n_bytes, uint64_t n_max_bytes)
{
        return n_bytes < n_max_bytes ? n_bytes : n_max_bytes;
}

/* The bytes are: unused memory of the client's own blocks, what the daemon caches, and what it may still take from the
 * driver; within the client's own limit. */
static int ask_available(struct gpumem_client *client, struct pool *pool,
                         const struct gpumem_stats *stats, uint64_t *ret_n_bytes)
{
        uint64_t n_bytes, n_max_bytes;
        struct stats_row row;
        int r = ask_row(client, pool, &row);

        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        n_max_bytes = pool->limit.n_max_bytes;
        pthread_mutex_unlock(&pool->lock);
        /* device_free is UINT64_MAX if it is not known, and for pinned memory. */
        n_bytes = at_most(less(row.max, row.reserved), row.device_free) + row.cached +
                  less(stats->n_reserved_bytes, stats->n_allocated_bytes);
        *ret_n_bytes = at_most(n_bytes, less(n_max_bytes, stats->n_allocated_bytes));
        return 0;
}

/* The one figure that is not the client's own. */
static bool ask_daemon(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                       const struct gpumem_stats *stats, uint64_t *ret_value)
{
        struct pool *pool;
        int r = client_find_pool(client, kind, place, &pool);

        if (!r)
                r = ask_available(client, pool, stats, ret_value);
        client_settle(client);
        return r == 0;
}

int gpumem_get_figures(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                       const char **ret_names, uint64_t *ret_values, size_t n_room, size_t *ret_n)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = client_enter(&client);

        if (!r)
                r = gpumem_get_stats(client, kind, place, &stats);
        if (r)
                return r;
        for (size_t i = 0; i < N_FIGURES && i < n_room; i++)
                ret_values[i] = read_figure(client, &stats, i, &ret_names[i]);
        *ret_n = N_FIGURES + 1;
        if (n_room <= N_FIGURES)
                return 0;
        ret_names[N_FIGURES] = "available_bytes";
        if (!ask_daemon(client, kind, place, &stats, &ret_values[N_FIGURES]))
                *ret_n = N_FIGURES;
        return 0;
}

int gpumem_monitor_wait(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                        uint32_t period_ms, struct gpumem_stats *ret_stats)
{
        int r = client_enter(&client);

        /* What cannot be read is told now, not after the wait. */
        if (!r)
                r = gpumem_get_stats(client, kind, place, ret_stats);
        if (r)
                return r;
        client_listen(client);
        events_wait(client_events(client), period_ms);
        r = gpumem_get_stats(client, kind, place, ret_stats);
        client_settle(client);
        return r;
}

void gpumem_monitor_wake(struct gpumem_client *client)
{
        if (client_enter_present(&client) == 0)
                events_stir(client_events(client));
}

uint64_t gpumem_pressure(struct gpumem_client *client)
{
        if (client_enter_present(&client))
                return 0;
        client_settle_marks(client);
        client_listen(client);
        return count_events(client, GPUMEM_EVENT_PRESSURE);
}

int gpumem_set_tag(struct gpumem_client *client, const char *tag)
{
        int r = client_enter(&client);

        return r ? r : tags_set(&client->tags, tag);
}

int gpumem_get_tag_stats(struct gpumem_client *client, const char *tag,
                         struct gpumem_tag_stats *ret_stats)
{
        size_t n_bytes = ret_stats->struct_size;
        struct gpumem_tag_stats stats;
        int r = client_enter(&client);

        if (!r)
                r = check_struct(n_bytes, sizeof(stats));
        if (!r)
                r = tags_get(&client->tags, tag, &stats);
        if (r)
                return r;
        stats.struct_size = n_bytes;
        memcpy(ret_stats, &stats, n_bytes);
        return 0;
}

static int describe_in(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        int r = pool_describe(pool, pointer, ret_info);

        if (r == GPUMEM_E_NOT_OURS)
                r = shared_alloc_describe(pool, pointer, ret_info);
        /* The driver knows memory that it has made itself. */
        if (!r && pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM)
                ret_info->is_registered = 1;
        return r;
}

int gpumem_describe(struct gpumem_client *client, const void *pointer, struct gpumem_info *ret_info)
{
        struct gpumem_info info = {.struct_size = ret_info->struct_size};
        int r = client_enter(&client);
        struct pool *pool;

        if (!r)
                r = check_struct(info.struct_size, sizeof(info));
        if (r)
                return r;
        r = GPUMEM_E_NOT_OURS;
        for (uint32_t i = 0; r == GPUMEM_E_NOT_OURS && (pool = client_pool(client, i)); i++)
                r = describe_in(pool, pointer, &info);
        if (!r && client_has_deferred(client, info.base))
                r = GPUMEM_E_NOT_OURS;
        if (!r)
                debug_describe(&client->debug, &info);
        if (!r)
                memcpy(ret_info, &info, info.struct_size);
        return r;
}
