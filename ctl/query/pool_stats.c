/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/pool_stats.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "client/connection/query.h"
#include "client/runtime/last_error.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/query/event_rows.h"
#include "gpumem.h"
#include "metrics/pool_sample.h"

void pool_stats_deinit(struct pool_stats *pool_stats)
{
        free(pool_stats->pools);
        free(pool_stats->stats);
}

/* What a terminal would carry out is not for it. */
static void clean_name(struct pool_row *pool)
{
        char name[sizeof(pool->name)];

        memcpy(name, pool->name, sizeof(name));
        name[sizeof(name) - 1] = '\0';
        proto_put_text(pool->name, sizeof(pool->name), name);
}

static int fetch_pools(struct link *link, struct pool_stats *pool_stats)
{
        static const struct query query = {MESSAGE_POOLS, MESSAGE_POOLS_REPLY,
                                           sizeof(struct pool_row)};
        struct frame request = FRAME_NULL;
        int r = query_ask(link, &query, &request, NULL, (void **)&pool_stats->pools,
                          &pool_stats->n);

        if (r)
                return r;
        for (uint32_t i = 0; i < pool_stats->n; i++)
                clean_name(&pool_stats->pools[i]);
        return 0;
}

static int fetch_stats(struct link *link, struct pool_stats *pool_stats)
{
        static const struct query query = {MESSAGE_STATS, MESSAGE_STATS_REPLY,
                                           sizeof(struct stats_row)};
        struct frame request = FRAME_NULL;
        uint32_t n;
        int r = query_ask(link, &query, &request, NULL, (void **)&pool_stats->stats, &n);

        if (r)
                return r;
        return n && n == pool_stats->n ? 0 : -EPROTO;
}

int pool_stats_fetch(struct link *link, struct pool_stats *ret_figures)
{
        int r = fetch_pools(link, ret_figures);

        return r ? r : fetch_stats(link, ret_figures);
}

int pool_stats_check_pool(const struct pool_stats *pool_stats, uint32_t pool)
{
        char text[64];

        if (pool == PROTO_ALL_POOLS)
                return 0;
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->pools[i].id == pool)
                        return 0;
        }
        (void)snprintf(text, sizeof(text), "unknown pool %" PRIu32 " (valid: 0-%" PRIu32 ")", pool,
                       pool_stats->n - 1);
        last_error_set(GPUMEM_E_NO_POOL, text);
        return GPUMEM_E_NO_POOL;
}

const char *pool_stats_short_name(const struct pool_row *pool)
{
        static const char maker[] = "NVIDIA ";
        size_t n = strlen(maker);

        return strncmp(pool->name, maker, n) == 0 && pool->name[n] ? pool->name + n : pool->name;
}

static json_t *figure_to_json(uint64_t value)
{
        return value == PROTO_FIGURE_UNKNOWN ? json_null() : json_integer(json_figure(value));
}

/* Every figure of stats.def under its own name; bytes are named so. */
json_t *pool_stats_to_json(const struct pool_row *pool, const struct stats_row *stats)
{
        json_t *object = json_pack("{s:I, s:s, s:s, s:I}", "pool", json_figure(pool->id), "kind",
                                   format_pool_kind(pool->kind), "name", pool->name, "place",
                                   json_figure(pool->place));
        char uuid[UUID_TEXT_MAX];

        pool_uuid(pool, uuid);
        (void)json_object_set_new(object, "uuid",
                                  pool->kind == GPUMEM_DEVICE ? json_string(uuid) : json_null());
#define STAT(field, unit, text) \
        (void)json_object_set_new(object, #field "_" #unit, figure_to_json(stats->field));
#include "proto/stats.def"
#undef STAT
        return object;
}

/* Every figure of loop.def, in the same way; null: an older gpumemd does not tell them. */
static int fetch_loop_json(struct link *link, json_t **ret_loop)
{
        struct message_loop_is loop;
        int r = query_loop(link, &loop);

        if (r && r != GPUMEM_E_UNKNOWN_KIND)
                return r;
        *ret_loop = r ? json_null() : json_object();
#define LOOP(field, unit, text) \
        if (!r)                 \
                (void)json_object_set_new(*ret_loop, #field "_" #unit, figure_to_json(loop.field));
#include "proto/loop.def"
#undef LOOP
        return 0;
}

static bool is_shown(const struct arguments *arguments, const struct pool_table *shown,
                     const struct pool_row *pool)
{
        return (arguments->pool == PROTO_ALL_POOLS || pool->id == arguments->pool) &&
               (shown->of == POOL_TABLE_OF_ALL || pool->kind == GPUMEM_DEVICE);
}

static int print_stats_json(struct link *link, const struct arguments *arguments, const char *name,
                            const struct pool_stats *pool_stats, const struct pool_table *shown,
                            bool is_ending)
{
        json_t *pools, *loop;
        int r = fetch_loop_json(link, &loop);

        if (r)
                return report_refusal(link, name, r);
        pools = json_array();
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (is_shown(arguments, shown, &pool_stats->pools[i]))
                        (void)json_array_append_new(
                                pools,
                                pool_stats_to_json(&pool_stats->pools[i], &pool_stats->stats[i]));
        }
        return print_json_value(
                json_pack("{s:o, s:b, s:o}", "pools", pools, "ending", is_ending, "loop", loop));
}

static int print_table(const struct arguments *arguments, const struct pool_stats *pool_stats,
                       const char *name, const struct pool_table *shown)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_columns(&table, shown->columns, shown->n_columns);
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                struct table_row *row;

                if (!is_shown(arguments, shown, &pool_stats->pools[i]))
                        continue;
                row = table_add_row(&table);
                if (!row)
                        return report_failure(name, -ENOMEM);
                shown->fill_row(row, &pool_stats->pools[i], &pool_stats->stats[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

int pool_stats_show(struct link *link, const struct arguments *arguments, const char *name,
                    const struct pool_table *narrow, const struct pool_table *wide)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats pool_stats = {.n = 0};
        const struct pool_table *shown = arguments->output == OUTPUT_WIDE ? wide : narrow;
        bool is_ending = false;
        int r, status;

        r = pool_stats_fetch(link, &pool_stats);
        if (!r)
                r = pool_stats_check_pool(&pool_stats, arguments->pool);
        if (!r)
                r = event_rows_fetch_end(link, &is_ending);
        if (r)
                return report_refusal(link, name, r);
        if (arguments->output == OUTPUT_JSON)
                return print_stats_json(link, arguments, name, &pool_stats, shown, is_ending);
        status = print_table(arguments, &pool_stats, name, shown);
        if (is_ending)
                (void)puts(EVENT_ROWS_END);
        return status;
}
