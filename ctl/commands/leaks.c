/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl leaks: memory that may be leaked. */
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/parse.h"
#include "ctl/output/table.h"
#include "ctl/query/leak_rules.h"
#include "ctl/query/listing.h"
#include "ctl/query/process.h"

#define OLDER_S     60
#define OLDER_S_MAX 1000000

static const char help[] =
        "Usage: gpumemctl leaks [OPTION]...\n"
        "Shows memory that may be leaked, which process has it, and what to do about it.\n"
        "Exit status: 0 none found, 1 some found, 3 gpumemd cannot be reached.\n"
        "\n"
        "  left        the client closed its connection, but its process lives\n"
        "  orphaned    its process ended, but a child process holds the connection\n"
        "  stopped     the process is stopped, and holds memory\n"
        "  lingering   taken from a client that has not unmapped it\n"
        "  registered  the same for pinned memory: a living process keeps it registered\n"
        "  stuck       the driver does not take it back\n"
        "  declared    of an earlier gpumemd, and still mapped\n"
        "  idle        leased for long, and not used at present\n"
        "  shared      attached by other clients, and freed by the client that shared it\n"
        "\n"
        "  --older SECONDS  only memory of this age or older; default: 60. AGE is the\n"
        "                   time in that state, or since the client connected\n"
        "  --json           for programs\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see other tenants' memory.\n";

enum { LEAKS_OLDER = OPTION_OWN };

struct older {
        bool is_given;
        uint64_t seconds;
};

static void number_cell(char *cell, uint64_t value, uint64_t none)
{
        if (value == none)
                (void)snprintf(cell, TABLE_CELL_MAX, "-");
        else
                format_count(cell, value);
}

static int print_table(const struct leaks *leaks, uint64_t older_s)
{
        static const struct table_column columns[] = {
                {"WHAT", TABLE_LEFT},    {"UID", TABLE_RIGHT},  {"PID", TABLE_RIGHT},
                {"POOL", TABLE_RIGHT},   {"SIZE", TABLE_RIGHT}, {"AGE", TABLE_RIGHT},
                {"PROGRAM", TABLE_LEFT}, {"WHICH", TABLE_LEFT}};
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;

        /* On stderr: the table is for programs, too. */
        if (!leaks->n)
                (void)fprintf(stderr,
                              "gpumemctl: nothing that this user may see seems to be leaked for "
                              "%" PRIu64 " s or longer (--older)\n",
                              older_s);
        table_add_columns(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < leaks->n; i++) {
                const struct leak *leak = &leaks->leaks[i];
                struct table_row *row = table_add_row(&table);

                if (!row)
                        return report_failure("leaks", -ENOMEM);
                (void)snprintf(row->cells[0], TABLE_CELL_MAX, "%s", leak_name(leak->kind));
                number_cell(row->cells[1], leak->uid, LISTING_NOBODY);
                number_cell(row->cells[2], leak->pid, 0);
                number_cell(row->cells[3], leak->pool, LISTING_NOBODY);
                format_bytes(row->cells[4], leak->n_bytes);
                format_time(row->cells[5], leak->age_ms);
                (void)snprintf(row->cells[6], TABLE_CELL_MAX, "%s",
                               *leak->program ? leak->program : "-");
                leak_advise(leak, row->cells[7]);
        }
        table_print(&table, stdout);
        return STATUS_OK;
}

static json_t *number_to_json(uint64_t value, uint64_t none)
{
        return value == none ? json_null() : json_integer(json_figure(value));
}

static json_t *text_to_json(const char *text)
{
        return *text ? json_string(text) : json_null();
}

static json_t *leak_to_json(const struct leak *leak)
{
        char advice[LEAK_ADVICE_MAX];

        leak_advise(leak, advice);
        return json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:s}", "what",
                         leak_name(leak->kind), "uid", number_to_json(leak->uid, LISTING_NOBODY),
                         "pid", number_to_json(leak->pid, 0), "pool",
                         number_to_json(leak->pool, LISTING_NOBODY), "bytes",
                         json_figure(leak->n_bytes), "blocks_count",
                         number_to_json(leak->n_blocks, 0), "age_ms", json_figure(leak->age_ms),
                         "program", text_to_json(leak->program), "container",
                         text_to_json(leak->container), "text", advice);
}

static int print_json(const struct leaks *leaks)
{
        json_t *array = json_array();

        for (uint32_t i = 0; i < leaks->n; i++)
                (void)json_array_append_new(array, leak_to_json(&leaks->leaks[i]));
        return print_json_value(json_pack("{s:o}", "leaks", array));
}

static int fetch(struct link *link, struct listed *clients, struct listed *blocks)
{
        struct frame request = FRAME_NULL;
        int r = listing_fetch(link, &listing_clients, &request, clients);

        request = FRAME_NULL;
        request.blocks.pool = PROTO_ALL_POOLS;
        return r ? r : listing_fetch(link, &listing_blocks, &request, blocks);
}

static int run(struct link *link, const struct arguments *arguments)
{
        const struct older *older = arguments->own;
        uint64_t older_s = older->is_given ? older->seconds : OLDER_S;
        CLEANUP(listed_deinit)
        struct listed clients = {.n_rows = 0};
        CLEANUP(listed_deinit)
        struct listed blocks = {.n_rows = 0};
        CLEANUP(leaks_deinit)
        struct leaks leaks = {.n = 0};
        struct leak_rows rows;
        int r = fetch(link, &clients, &blocks), status;

        if (r)
                return report_refusal(link, "leaks", r);
        rows = (struct leak_rows){(const void *)clients.rows, clients.n_rows,
                                  (const void *)blocks.rows, blocks.n_rows};
        leaks_find(&rows, older_s * 1000, process_is_stopped, &leaks);
        if (leaks.is_short_of_memory)
                return report_failure("leaks", -ENOMEM);
        status = arguments->output == OUTPUT_JSON ? print_json(&leaks)
                                                  : print_table(&leaks, older_s);
        return status == STATUS_OK && leaks.n ? STATUS_FAILURE : status;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct older *older = arguments->own;

        (void)id;
        if (parse_number(value, &older->seconds) || older->seconds > OLDER_S_MAX)
                return parse_refuse("--older", value, "0-1000000 seconds");
        older->is_given = true;
        return 0;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"older", required_argument, NULL, LEAKS_OLDER},
        COMMAND_OPTIONS_END,
};

const struct command leaks_command = {
        .name = "leaks",
        .line = "memory that may be leaked, which process has it, what to do",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct older),
};
