/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl stats: what each pool holds. */
#include <stdio.h>

#include "base/err.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/table.h"
#include "ctl/query/pool_stats.h"

static const char help[] =
        "Usage: gpumemctl stats [OPTION]...\n"
        "Shows what each pool holds: RESERVED = LEASED + CACHED + LINGERING.\n"
        "\n"
        "  OF         most that the pool may reserve\n"
        "  LEASED     in leases of clients; IDLE is the part that they do not use at\n"
        "             present, and that others get without them\n"
        "  CACHED     kept for the next lease; free-all gives it back to the driver\n"
        "  LINGERING  on the way back to the driver, or perhaps still mapped by a client\n"
        "  CHARGED    to clients: leased, lingering, kept mapped, declared\n"
        "  DECLARED   of an earlier gpumemd's blocks, as clients declare; not reserved\n"
        "  WAITING    requests that wait for memory\n"
        "\n"
        "  --wide     all columns, and longer sizes\n"
        "  --json     for programs: more figures, sizes in bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

static int print_stats_table(const struct pool_stats *pool_stats)
{
        static const char *const headings[] = {"RESERVED", "OF",        "LEASED", "IDLE",
                                               "CACHED",   "LINGERING", "WAITING"};
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        table_add_column(&table, "POOL", TABLE_RIGHT);
        table_add_column(&table, "NAME", TABLE_LEFT);
        for (unsigned i = 0; i < ARRAY_SIZE(headings); i++)
                table_add_column(&table, headings[i], TABLE_RIGHT);
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                const struct stats_row *stats = &pool_stats->stats[i];
                struct table_row *row = table_add_row(&table);
                unsigned cell = 0;

                if (!row)
                        return report_failure("stats", -ENOMEM);
                format_count(row->cells[cell++], pool_stats->pools[i].id);
                (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s",
                               pool_stats_short_name(&pool_stats->pools[i]));
                format_short_bytes(row->cells[cell++], stats->reserved);
                format_short_bytes(row->cells[cell++], stats->max);
                format_short_bytes(row->cells[cell++], stats->leased);
                format_short_bytes(row->cells[cell++], stats->idle);
                format_short_bytes(row->cells[cell++], stats->cached);
                format_short_bytes(row->cells[cell++], stats->lingering);
                format_count(row->cells[cell++], stats->waiting);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static void add_wide_columns(struct table *table)
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

static void fill_wide_row(struct table_row *row, const struct pool_row *pool,
                          const struct stats_row *stats)
{
        unsigned cell = 0;

        format_count(row->cells[cell++], pool->id);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", format_pool_kind(pool->kind));
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

static int print_wide_table(const struct pool_stats *pool_stats)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        add_wide_columns(&table);
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("stats", -ENOMEM);
                fill_wide_row(row, &pool_stats->pools[i], &pool_stats->stats[i]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static int run(struct link *link, const struct arguments *arguments)
{
        return pool_stats_show(link, arguments, "stats",
                               arguments->output == OUTPUT_WIDE ? print_wide_table
                                                                : print_stats_table);
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE,
                                        COMMAND_OPTIONS_END};

const struct command stats_command = {
        .name = "stats",
        .line = "what each pool holds: reserved = leased + cached + lingering",
        .help = help,
        .options = options,
        .run = run,
};
