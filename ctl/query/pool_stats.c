#include "ctl/query/pool_stats.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "client/question.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/query/event_rows.h"
#include "gpumem.h"

void figures_deinit(struct figures *figures)
{
        free(figures->pools);
        free(figures->stats);
}

/* What a terminal would carry out is not for it. */
static void clean_name(struct pool_row *pool)
{
        char name[sizeof(pool->name)];

        memcpy(name, pool->name, sizeof(name));
        name[sizeof(name) - 1] = '\0';
        proto_put_text(pool->name, sizeof(pool->name), name);
}

static int fetch_pools(struct link *link, struct figures *figures)
{
        static const struct question question = {MESSAGE_POOLS, MESSAGE_POOLS_REPLY,
                                                 sizeof(struct pool_row)};
        struct frame request = FRAME_NULL;
        int r;

        r = question_ask(link, &question, &request, NULL, (void **)&figures->pools, &figures->n);
        if (r)
                return r;
        for (uint32_t i = 0; i < figures->n; i++)
                clean_name(&figures->pools[i]);
        return 0;
}

static int fetch_stats(struct link *link, struct figures *figures)
{
        static const struct question question = {MESSAGE_STATS, MESSAGE_STATS_REPLY,
                                                 sizeof(struct stats_row)};
        struct frame request = FRAME_NULL;
        uint32_t n;
        int r;

        r = question_ask(link, &question, &request, NULL, (void **)&figures->stats, &n);
        if (r)
                return r;
        return n && n == figures->n ? 0 : -EPROTO;
}

int figures_fetch(struct link *link, struct figures *ret_figures)
{
        int r = fetch_pools(link, ret_figures);

        return r ? r : fetch_stats(link, ret_figures);
}

void figures_uuid(const struct pool_row *pool, char text[static FIGURES_UUID_MAX])
{
        size_t length = (size_t)snprintf(text, FIGURES_UUID_MAX, "GPU-");

        for (unsigned i = 0; i < sizeof(pool->uuid); i++)
                length += (size_t)snprintf(text + length, FIGURES_UUID_MAX - length, "%s%02x",
                                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                           pool->uuid[i]);
}

const char *figures_short_name(const struct pool_row *pool)
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
static json_t *stats_to_json(const struct pool_row *pool, const struct stats_row *stats)
{
        json_t *object = json_pack("{s:I, s:s, s:s, s:I}", "pool", json_figure(pool->id), "kind",
                                   format_pool_kind(pool->kind), "name", pool->name, "place",
                                   json_figure(pool->place));
        char uuid[FIGURES_UUID_MAX];

        figures_uuid(pool, uuid);
        (void)json_object_set_new(object, "uuid",
                                  pool->kind == GPUMEM_DEVICE ? json_string(uuid) : json_null());
#define STAT(field, unit, text) \
        (void)json_object_set_new(object, #field "_" #unit, figure_to_json(stats->field));
#include "proto/stats.def"
#undef STAT
        return object;
}

static int print_stats_json(const struct figures *figures, bool is_ending)
{
        json_t *pools = json_array();

        for (uint32_t i = 0; i < figures->n; i++)
                (void)json_array_append_new(pools,
                                            stats_to_json(&figures->pools[i], &figures->stats[i]));
        return print_json_value(json_pack("{s:o, s:b}", "pools", pools, "ending", is_ending));
}

int figures_show(struct link *link, const struct arguments *arguments, const char *name,
                 int (*print_table)(const struct figures *figures))
{
        CLEANUP(figures_deinit)
        struct figures figures = {.n = 0};
        bool is_ending = false;
        int r, status;

        r = figures_fetch(link, &figures);
        if (!r)
                r = happened_fetch_end(link, &is_ending);
        if (r)
                return report_refusal(link, name, r);
        if (arguments->output == OUTPUT_JSON)
                return print_stats_json(&figures, is_ending);
        status = print_table(&figures);
        if (is_ending)
                (void)puts(HAPPENED_END);
        return status;
}
