#include "ctl/commands.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/refusal.h"
#include "client/rows.h"
#include "ctl/table.h"
#include "gpumem.h"

int report_failure(const char *what, int result)
{
        (void)fprintf(stderr, "gpumemctl: %s: %s\n", what, refusal_heard(result));
        return result == GPUMEM_E_DISCONNECTED ? STATUS_NO_DAEMON : STATUS_FAILURE;
}

static int report_with(struct link *link, const char *what, int result, const char *hint)
{
        char refusal[LINK_REFUSAL_MAX] = "";

        if (result > 0)
                link_refusal(link, refusal);
        if (!*refusal)
                return report_failure(what, result);
        (void)fprintf(stderr, "gpumemctl: %s: %s%s\n", what, refusal, hint);
        return STATUS_FAILURE;
}

int report_refusal(struct link *link, const char *what, int result)
{
        return report_with(link, what, result, "");
}

int report_refusal_of(struct link *link, const char *what, int result,
                      const struct arguments *arguments)
{
        bool can_be_narrower = result == GPUMEM_E_DENIED && arguments->scope == PROTO_SCOPE_NODE;

        return report_with(link, what, result,
                           can_be_narrower ? "; with --tenant it is your own only" : "");
}

int print_json_value(struct json_t *take_value)
{
        int r = -1;

        if (take_value)
                r = json_dumpf(take_value, stdout, JSON_INDENT(2));
        json_decref(take_value);
        if (r) {
                (void)fprintf(stderr, "gpumemctl: no memory for the answer\n");
                return STATUS_FAILURE;
        }
        (void)putchar('\n');
        return STATUS_OK;
}

/* The pools and their figures, in the same order. */
struct figures {
        uint32_t n;
        struct pool_row *pools;
        struct stats_row *stats;
};

static void figures_deinit(struct figures *figures)
{
        free(figures->pools);
        free(figures->stats);
}

static int fetch_pools(struct link *link, struct figures *figures)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        void *rows;
        int r;

        r = link_call(link, &request, MESSAGE_POOLS, MESSAGE_POOLS_REPLY, &reply, &fds);
        if (!r)
                r = rows_read(fds.fds[0], reply.pools_reply.n_rows, reply.pools_reply.n_row_bytes,
                              sizeof(struct pool_row), &rows);
        if (r)
                return r;
        figures->pools = rows;
        figures->n = reply.pools_reply.n_rows;
        for (uint32_t i = 0; i < figures->n; i++)
                figures->pools[i].name[sizeof(figures->pools[i].name) - 1] = '\0';
        return 0;
}

static int fetch_stats(struct link *link, struct figures *figures)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        void *rows;
        int r;

        r = link_call(link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds);
        if (!r)
                r = rows_read(fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes,
                              sizeof(struct stats_row), &rows);
        if (r)
                return r;
        figures->stats = rows;
        return reply.stats_reply.n_rows == figures->n ? 0 : -EPROTO;
}

const char *pool_kind_name(uint64_t kind)
{
        return kind == GPUMEM_DEVICE ? "device" : "pinned";
}

static void format_bytes(char *cell, uint64_t value)
{
        char text[SIZE_TEXT_MAX];

        (void)snprintf(cell, TABLE_CELL_MAX, "%s", size_format(value, text));
}

static void format_count(char *cell, uint64_t value)
{
        (void)snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, value);
}

static void add_stats_columns(struct table *table)
{
        static const char *const headings[] = {"RESERVED", "OF",        "LEASED",  "IDLE",
                                               "CACHED",   "LINGERING", "CHARGED", "DECLARED",
                                               "BLOCKS",   "CLIENTS",   "WAITING"};

        table_add_column(table, "POOL", TABLE_RIGHT);
        table_add_column(table, "KIND", TABLE_LEFT);
        table_add_column(table, "NAME", TABLE_LEFT);
        for (unsigned i = 0; i < ARRAY_SIZE(headings); i++)
                table_add_column(table, headings[i], TABLE_RIGHT);
}

static void fill_stats_row(struct table_row *row, const struct pool_row *pool,
                           const struct stats_row *stats)
{
        unsigned cell = 0;

        format_count(row->cells[cell++], pool->id);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", pool_kind_name(pool->kind));
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", pool->name);
        format_bytes(row->cells[cell++], stats->reserved);
        format_bytes(row->cells[cell++], stats->max);
        format_bytes(row->cells[cell++], stats->leased);
        format_bytes(row->cells[cell++], stats->idle);
        format_bytes(row->cells[cell++], stats->cached);
        format_bytes(row->cells[cell++], stats->lingering);
        format_bytes(row->cells[cell++], stats->charged);
        format_bytes(row->cells[cell++], stats->declared);
        format_count(row->cells[cell++], stats->blocks);
        format_count(row->cells[cell++], stats->clients);
        format_count(row->cells[cell++], stats->waiting);
}

static int print_stats_table(const struct figures *figures)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        add_stats_columns(&table);
        for (uint32_t i = 0; i < figures->n; i++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("stats", -ENOMEM);
                fill_stats_row(row, &figures->pools[i], &figures->stats[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static json_t *figure_to_json(uint64_t value)
{
        return value == PROTO_FIGURE_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

/* Every figure of stats.def under its own name; bytes are named so. */
static json_t *stats_to_json(const struct pool_row *pool, const struct stats_row *stats)
{
        json_t *object = json_pack("{s:I, s:s, s:s, s:I}", "pool", (json_int_t)pool->id, "kind",
                                   pool_kind_name(pool->kind), "name", pool->name, "place",
                                   (json_int_t)pool->place);

#define STAT(field, unit, text) \
        (void)json_object_set_new(object, #field "_" #unit, figure_to_json(stats->field));
#include "proto/stats.def"
#undef STAT
        return object;
}

static int print_stats_json(const struct figures *figures)
{
        json_t *pools = json_array();

        for (uint32_t i = 0; i < figures->n; i++)
                (void)json_array_append_new(pools,
                                            stats_to_json(&figures->pools[i], &figures->stats[i]));
        return print_json_value(json_pack("{s:o}", "pools", pools));
}

static void format_known(char *cell, uint64_t value, void (*format)(char *cell, uint64_t value))
{
        if (value == PROTO_FIGURE_UNKNOWN)
                (void)snprintf(cell, TABLE_CELL_MAX, "unknown");
        else
                format(cell, value);
}

static void format_mode(char *cell, uint64_t value)
{
        (void)snprintf(cell, TABLE_CELL_MAX, "%s", value ? "on" : "off");
}

static const char *device_state_text(uint64_t state)
{
        static const char *const texts[] = {
                [PROTO_DEVICE_UNKNOWN] = "unknown",
                [PROTO_DEVICE_WELL] = "well",
                [PROTO_DEVICE_WORN] = "to be reset or replaced",
                [PROTO_DEVICE_NEEDS_RESET] = "error: needs a reset",
                [PROTO_DEVICE_NEEDS_REBOOT] = "error: needs a reboot",
                [PROTO_DEVICE_LOST] = "error: lost",
        };

        return state < ARRAY_SIZE(texts) ? texts[state] : "unknown";
}

static const char *driver_state_text(uint64_t state)
{
        static const char *const texts[] = {
                [PROTO_DRIVER_ANSWERS] = "serving",
                [PROTO_DRIVER_STALLED] = "stalled",
                [PROTO_DRIVER_LOST] = "lost",
        };

        return state < ARRAY_SIZE(texts) ? texts[state] : "unknown";
}

/* "stalled, 12 s"; of a driver that has always answered nothing more is to be said. */
static void format_driver(char *cell, const struct stats_row *stats)
{
        const char *text = driver_state_text(stats->driver);

        if (stats->driver_for)
                (void)snprintf(cell, TABLE_CELL_MAX, "%s, %" PRIu64 " s", text,
                               stats->driver_for / 1000);
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "%s", text);
}

static void fill_device_row(struct table_row *row, const struct pool_row *pool,
                            const struct stats_row *stats)
{
        unsigned cell = 0;

        format_count(row->cells[cell++], pool->id);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", pool->name);
        format_bytes(row->cells[cell++], pool->n_capacity_bytes);
        format_bytes(row->cells[cell++], stats->reserved);
        format_known(row->cells[cell++], stats->device_others, format_bytes);
        format_known(row->cells[cell++], stats->device_free, format_bytes);
        format_known(row->cells[cell++], stats->device_mig, format_mode);
        format_known(row->cells[cell++], stats->device_uncorrected, format_count);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", device_state_text(stats->device));
        format_driver(row->cells[cell++], stats);
}

static int print_devices_table(const struct figures *figures)
{
        static const char *const headings[] = {"OF", "RESERVED", "OTHERS", "FREE", "MIG", "ERRORS"};
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_column(&table, "POOL", TABLE_RIGHT);
        table_add_column(&table, "NAME", TABLE_LEFT);
        for (unsigned i = 0; i < ARRAY_SIZE(headings); i++)
                table_add_column(&table, headings[i], TABLE_RIGHT);
        table_add_column(&table, "STATE", TABLE_LEFT);
        table_add_column(&table, "DRIVER", TABLE_LEFT);
        for (uint32_t i = 0; i < figures->n; i++) {
                struct table_row *row;

                if (figures->pools[i].kind != GPUMEM_DEVICE)
                        continue;
                row = table_add_row(&table);
                if (!row)
                        return report_failure("devices", -ENOMEM);
                fill_device_row(row, &figures->pools[i], &figures->stats[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static int with_figures(struct link *link, const struct arguments *arguments, const char *name,
                        int (*print_table)(const struct figures *figures))
{
        CLEANUP(figures_deinit)
        struct figures figures = {.n = 0};
        int r;

        r = fetch_pools(link, &figures);
        if (!r)
                r = fetch_stats(link, &figures);
        if (r)
                return report_refusal(link, name, r);
        return arguments->output == OUTPUT_JSON ? print_stats_json(&figures)
                                                : print_table(&figures);
}

int command_stats(struct link *link, const struct arguments *arguments)
{
        return with_figures(link, arguments, "stats", print_stats_table);
}

int command_devices(struct link *link, const struct arguments *arguments)
{
        return with_figures(link, arguments, "devices", print_devices_table);
}

int command_free_all(struct link *link, const struct arguments *arguments)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        char text[SIZE_TEXT_MAX];
        int r;

        request.free_all_blocks.scope = arguments->scope;
        request.free_all_blocks.pool = arguments->pool;
        r = link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
        if (r)
                return report_refusal_of(link, "free-all", r, arguments);
        if (arguments->output == OUTPUT_JSON)
                return print_json_value(json_pack("{s:I, s:I}", "freed_bytes",
                                                  (json_int_t)reply.freed.n_bytes, "freed_blocks",
                                                  (json_int_t)reply.freed.n_blocks));
        (void)printf("%s in %" PRIu64 " %s went back to the driver\n",
                     size_format(reply.freed.n_bytes, text), reply.freed.n_blocks,
                     reply.freed.n_blocks == 1 ? "block" : "blocks");
        return STATUS_OK;
}
