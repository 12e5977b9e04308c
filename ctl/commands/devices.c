/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl devices: what NVML and the driver say of each GPU. */
#include <inttypes.h>

#include "base/err.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/table.h"
#include "ctl/query/pool_stats.h"
#include "gpumem.h"
#include "metrics/pool_sample.h"

static const char help[] =
        "Usage: gpumemctl devices [OPTION]...\n"
        "Shows each GPU: free memory, use by other programs, MIG, errors, health.\n"
        "\n"
        "  UUID       of the GPU, as nvidia-smi -L prints it\n"
        "  TOTAL      the device's memory; what its pool may reserve is OF of stats\n"
        "  OTHERS     memory used on the device, but not by gpumemd's blocks\n"
        "  FREE       as NVML reports; unknown without NVML\n"
        "  ERRORS     uncorrected memory errors since the device's driver was loaded\n"
        "  XID        the last error of the device that NVML reported\n"
        "  STATE      well; needs a reset or replacement; or an error: no new blocks\n"
        "  DRIVER     serving; stalled: only cached blocks are served; lost: nothing is\n"
        "\n"
        "  --wide     all columns, and longer sizes\n"
        "  --json     for programs: all statistics of stats too, sizes in bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

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

static void format_xid(char *cell, uint64_t value)
{
        if (value)
                format_count(cell, value);
        else
                (void)snprintf(cell, TABLE_CELL_MAX, "none");
}

static const char *device_state_text(uint64_t state)
{
        static const char *const texts[] = {
                [PROTO_DEVICE_UNKNOWN] = "unknown",
                [PROTO_DEVICE_WELL] = "well",
                [PROTO_DEVICE_WORN] = "to be drained and reset, or replaced",
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

static void fill_narrow_row(struct table_row *row, const struct pool_row *pool,
                            const struct stats_row *stats)
{
        unsigned cell = 0;

        format_count(row->cells[cell++], pool->id);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", pool_stats_short_name(pool));
        format_short_bytes(row->cells[cell++], pool->n_capacity_bytes);
        format_short_bytes(row->cells[cell++], stats->reserved);
        format_known(row->cells[cell++], stats->device_others, format_short_bytes);
        format_known(row->cells[cell++], stats->device_free, format_short_bytes);
        format_known(row->cells[cell++], stats->device_last_xid, format_xid);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", device_state_text(stats->device));
        format_driver(row->cells[cell++], stats);
}

static void fill_wide_row(struct table_row *row, const struct pool_row *pool,
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
        format_known(row->cells[cell++], stats->device_last_xid, format_xid);
        (void)snprintf(row->cells[cell++], TABLE_CELL_MAX, "%s", device_state_text(stats->device));
        format_driver(row->cells[cell++], stats);
        pool_uuid(pool, row->cells[cell++]);
}

static const struct table_column narrow_columns[] = {
        {"POOL", TABLE_RIGHT},     {"NAME", TABLE_LEFT},    {"TOTAL", TABLE_RIGHT},
        {"RESERVED", TABLE_RIGHT}, {"OTHERS", TABLE_RIGHT}, {"FREE", TABLE_RIGHT},
        {"XID", TABLE_RIGHT},      {"STATE", TABLE_LEFT},   {"DRIVER", TABLE_LEFT},
};

static const struct table_column wide_columns[] = {
        {"POOL", TABLE_RIGHT},     {"NAME", TABLE_LEFT},    {"TOTAL", TABLE_RIGHT},
        {"RESERVED", TABLE_RIGHT}, {"OTHERS", TABLE_RIGHT}, {"FREE", TABLE_RIGHT},
        {"MIG", TABLE_RIGHT},      {"ERRORS", TABLE_RIGHT}, {"XID", TABLE_RIGHT},
        {"STATE", TABLE_LEFT},     {"DRIVER", TABLE_LEFT},  {"UUID", TABLE_LEFT},
};

static const struct pool_table narrow = {narrow_columns, ARRAY_SIZE(narrow_columns),
                                         POOL_TABLE_OF_DEVICES, fill_narrow_row};
static const struct pool_table wide = {wide_columns, ARRAY_SIZE(wide_columns),
                                       POOL_TABLE_OF_DEVICES, fill_wide_row};

static int run(struct link *link, const struct arguments *arguments)
{
        return pool_stats_show(link, arguments, "devices", &narrow, &wide);
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE,
                                        COMMAND_OPTIONS_END};

const struct command devices_command = {
        .name = "devices",
        .line = "each GPU: free memory, other programs, MIG, errors, health",
        .help = help,
        .options = options,
        .run = run,
};
