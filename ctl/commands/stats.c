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
        "  OF         the pool's limit: the most that it may reserve\n"
        "  LEASED     in leases of clients; IDLE is the part that they do not use at\n"
        "             present, and that other clients can get\n"
        "  CACHED     kept for the next lease; free-all gives it back to the driver\n"
        "  LINGERING  on the way back to the driver, or perhaps still mapped by a client\n"
        "  CHARGED    to clients: leased, lingering, kept mapped, declared\n"
        "  DECLARED   blocks of an earlier gpumemd, as clients declare; not reserved\n"
        "  WAITING    requests that wait for memory\n"
        "  ALLOCATED  in allocations of clients, as they report\n"
        "  FREE       in no allocation: cached, idle, or between allocations\n"
        "  SPLIT      the part of FREE that its holder alone can use at present\n"
        "  LARGEST    the largest block of those that are cached or idle\n"
        "  PEAK       highest RESERVED since the start, or since reset-peaks\n"
        "\n"
        "  --pool ID  this pool only\n"
        "  --wide     all columns, and longer sizes\n"
        "  --json     for programs: more values, sizes in bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

static void fill_narrow_row(struct table_row *row, const struct pool_row *pool,
                            const struct stats_row *stats)
{
        unsigned cell = 0;

        format_count(row->cells[cell++], pool->id);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", pool_stats_short_name(pool));
        format_short_bytes(row->cells[cell++], stats->reserved);
        format_short_bytes(row->cells[cell++], stats->max);
        format_short_bytes(row->cells[cell++], stats->leased);
        format_short_bytes(row->cells[cell++], stats->idle);
        format_short_bytes(row->cells[cell++], stats->cached);
        format_short_bytes(row->cells[cell++], stats->lingering);
        format_count(row->cells[cell++], stats->waiting);
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
        format_bytes(row->cells[cell++], stats->allocated);
        format_bytes(row->cells[cell++], stats->free);
        format_bytes(row->cells[cell++], stats->split);
        format_bytes(row->cells[cell++], stats->largest_free);
        format_bytes(row->cells[cell++], stats->reserved_peak);
}

static const struct table_column narrow_columns[] = {
        {"POOL", TABLE_RIGHT},   {"NAME", TABLE_LEFT},       {"RESERVED", TABLE_RIGHT},
        {"OF", TABLE_RIGHT},     {"LEASED", TABLE_RIGHT},    {"IDLE", TABLE_RIGHT},
        {"CACHED", TABLE_RIGHT}, {"LINGERING", TABLE_RIGHT}, {"WAITING", TABLE_RIGHT},
};

static const struct table_column wide_columns[] = {
        {"POOL", TABLE_RIGHT},     {"KIND", TABLE_LEFT},      {"NAME", TABLE_LEFT},
        {"RESERVED", TABLE_RIGHT}, {"OF", TABLE_RIGHT},       {"LEASED", TABLE_RIGHT},
        {"IDLE", TABLE_RIGHT},     {"CACHED", TABLE_RIGHT},   {"LINGERING", TABLE_RIGHT},
        {"CHARGED", TABLE_RIGHT},  {"DECLARED", TABLE_RIGHT}, {"BLOCKS", TABLE_RIGHT},
        {"CLIENTS", TABLE_RIGHT},  {"WAITING", TABLE_RIGHT},  {"ALLOCATED", TABLE_RIGHT},
        {"FREE", TABLE_RIGHT},     {"SPLIT", TABLE_RIGHT},    {"LARGEST", TABLE_RIGHT},
        {"PEAK", TABLE_RIGHT},
};

static const struct pool_table narrow = {narrow_columns, ARRAY_SIZE(narrow_columns),
                                         POOL_TABLE_OF_ALL, fill_narrow_row};
static const struct pool_table wide = {wide_columns, ARRAY_SIZE(wide_columns), POOL_TABLE_OF_ALL,
                                       fill_wide_row};

static int run(struct link *link, const struct arguments *arguments)
{
        return pool_stats_show(link, arguments, "stats", &narrow, &wide);
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE,
                                        COMMAND_OPTION_POOL, COMMAND_OPTIONS_END};

const struct command stats_command = {
        .name = "stats",
        .line = "what each pool holds: reserved = leased + cached + lingering",
        .help = help,
        .options = options,
        .run = run,
};
