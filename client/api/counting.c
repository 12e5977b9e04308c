/* SPDX-License-Identifier: Apache-2.0 */
/* A client's numbers by name: statistics, tags, and how often memory was short. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "client/api/available.h"
#include "client/api/client.h"
#include "client/api/default_client.h"

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
        return atomic_load_explicit(&client->events.n_noted[kind], memory_order_relaxed);
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

/* The one figure that is not the client's own. */
static bool ask_daemon(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                       const struct gpumem_stats *stats, uint64_t *ret_value)
{
        struct pool *pool;
        int r = client_find_pool(client, kind, place, &pool);

        if (!r)
                r = available_ask(client, pool, stats, ret_value);
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

uint64_t gpumem_pressure(struct gpumem_client *client)
{
        if (client_enter_present(&client))
                return 0;
        client_listen(client);
        return count_events(client, GPUMEM_EVENT_PRESSURE);
}

int gpumem_set_tag(struct gpumem_client *client, const char *tag)
{
        int r = client_enter(&client);

        return r ? r : tags_set(&client->tags, client->number, tag);
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
