/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/map_svg.h"
#include "ctl/output/parse.h"
#include "ctl/output/screen.h"
#include "ctl/query/node_state.h"

/* Where no terminal says how wide it is, and on the widest. */
#define CELLS_A_LINE     64
#define CELLS_A_LINE_MAX 512
#define MARGIN           2
#define LINES            6

static const char help[] =
        "Usage: gpumemctl map [OPTION]...\n"
        "Draws each pool's bytes in cells; a cell stands for what takes most of it. Only\n"
        "the driver knows where blocks lie on a device: they are sorted by state and\n"
        "owner. Lines are as wide as the terminal; in files and pipes 64 cells.\n"
        "\n"
        "  A to Z  leased by a process; those with most have a letter of their own, the\n"
        "          others are Z together\n"
        "  a to z  idle in a lease of the same process: its tenant's others can get it\n"
        "  =       cached\n"
        "  ~       lingering: on the way back to the driver, or perhaps still mapped\n"
        "  ?       other tenants': only root and gpumemd's user see more\n"
        "  .       not reserved by the pool\n"
        "\n"
        "  --pool ID   this pool only; gpumemctl stats lists the pools\n"
        "  --svg FILE  writes the picture for a browser to FILE; -: standard output\n"
        "  --json      for programs: sizes in bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Colours only on a terminal, and not with NO_COLOR in the environment.\n";

enum { MAP_SVG = OPTION_OWN };

struct map_options {
        const char *svg;
};

enum colour {
        COLOUR_NONE,
        COLOUR_LEASED,
        COLOUR_IDLE,
        COLOUR_CACHED,
        COLOUR_LINGERING,
        COLOUR_OTHERS,
        COLOUR_FREE,
};

/* Whether standard output is a terminal that shows them, and NO_COLOR, set and not empty, does not forbid it. */
static bool colour_is_wanted(void)
{
        const char *term = getenv("TERM"), *forbidden = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
               !(forbidden && *forbidden);
}

/* What begins the colour, and with COLOUR_NONE ends it; "" where they are not wanted. */
static const char *colour_code(bool is_wanted, enum colour colour)
{
        static const char *const codes[] = {
                [COLOUR_NONE] = "\033[0m",       [COLOUR_LEASED] = "\033[32m",
                [COLOUR_IDLE] = "\033[33m",      [COLOUR_CACHED] = "\033[36m",
                [COLOUR_LINGERING] = "\033[31m", [COLOUR_OTHERS] = "\033[35m",
                [COLOUR_FREE] = "\033[2m",
        };

        return is_wanted ? codes[colour] : "";
}

static void map_deinit(struct map *map)
{
        for (unsigned i = 0; i < map->n; i++)
                chart_deinit(&map->charts[i]);
        free(map->pools);
        free(map->charts);
}

static int make(const struct node_state *node, uint32_t pool, struct map *map)
{
        const struct pool_stats *pool_stats = &node->pool_stats;

        map->pools = calloc(pool_stats->n, sizeof(*map->pools));
        map->charts = calloc(pool_stats->n, sizeof(*map->charts));
        if (!map->pools || !map->charts)
                return -ENOMEM;
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                int r;

                if (pool != PROTO_ALL_POOLS && pool_stats->pools[i].id != pool)
                        continue;
                r = chart_make(&pool_stats->pools[i], &pool_stats->stats[i],
                               (const void *)node->blocks.rows, node->blocks.n_rows,
                               (const void *)node->clients.rows, node->clients.n_rows,
                               &map->charts[map->n]);
                if (r)
                        return r;
                map->pools[map->n++] = &pool_stats->pools[i];
        }
        return 0;
}

static enum colour colour_of(const struct chart *chart, unsigned span)
{
        if (span == chart->n_spans)
                return COLOUR_FREE;
        switch (chart->spans[span].state) {
        case LISTED_LEASED:
                return COLOUR_LEASED;
        case LISTED_IDLE:
                return COLOUR_IDLE;
        case LISTED_CACHED:
                return COLOUR_CACHED;
        case LISTED_LINGERING:
                return COLOUR_LINGERING;
        case LISTED_SUM:
                break;
        }
        return COLOUR_OTHERS;
}

static char mark_of(const struct chart *chart, unsigned span)
{
        return span == chart->n_spans ? CHART_FREE : chart->spans[span].mark;
}

static unsigned cells_a_line(void)
{
        unsigned width = screen_width(MARGIN + CELLS_A_LINE);

        if (width <= MARGIN)
                return 1;
        return width < MARGIN + CELLS_A_LINE_MAX ? width - MARGIN : CELLS_A_LINE_MAX;
}

static void print_cells(const struct chart *chart, unsigned n_a_line, bool in_colour)
{
        unsigned cells[CELLS_A_LINE_MAX * LINES];
        unsigned n = chart_cells(chart, n_a_line * LINES, cells);

        for (unsigned i = 0; i < n; i++) {
                bool begins = i % n_a_line == 0;
                bool ends = i + 1 == n || (i + 1) % n_a_line == 0;

                if (begins || cells[i] != cells[i - 1])
                        (void)printf("%*s%s", begins ? MARGIN : 0, "",
                                     colour_code(in_colour, colour_of(chart, cells[i])));
                (void)putchar(mark_of(chart, cells[i]));
                if (ends || cells[i] != cells[i + 1])
                        (void)printf("%s", colour_code(in_colour, COLOUR_NONE));
                if (ends)
                        (void)putchar('\n');
        }
}

static void print_legend(const struct chart *chart, bool in_colour)
{
        char size[SIZE_TEXT_MAX], owner[SPAN_TEXT_MAX];

        for (unsigned i = 0; i < chart->n_spans; i++) {
                const struct span *span = &chart->spans[i];

                span_describe(span, owner);
                (void)printf("  %s%c%s %11s  %s, in %" PRIu64 " %s\n",
                             colour_code(in_colour, colour_of(chart, i)), span->mark,
                             colour_code(in_colour, COLOUR_NONE), size_format(span->n_bytes, size),
                             owner, span->n_blocks, span->n_blocks == 1 ? "block" : "blocks");
        }
        (void)printf("  %s%c%s %11s  not reserved\n", colour_code(in_colour, COLOUR_FREE),
                     CHART_FREE, colour_code(in_colour, COLOUR_NONE),
                     size_format(chart->n_free_bytes, size));
}

static int print_text(const struct map *map)
{
        bool in_colour = colour_is_wanted();
        unsigned n_a_line = cells_a_line();

        for (unsigned i = 0; i < map->n; i++) {
                const struct chart *chart = &map->charts[i];
                uint64_t n_cell_bytes = chart_cell_bytes(chart, n_a_line * LINES);
                char all[SIZE_TEXT_MAX], cell[SIZE_TEXT_MAX];

                (void)printf("%spool %" PRIu32 " (%s): %s, a cell is %s\n", i ? "\n" : "",
                             map->pools[i]->id, map->pools[i]->name,
                             size_format(chart->n_bytes, all), size_format(n_cell_bytes, cell));
                print_cells(chart, n_a_line, in_colour);
                print_legend(chart, in_colour);
        }
        return STATUS_OK;
}

static json_t *known_number(bool is_known, uint64_t n)
{
        return is_known ? json_integer(json_figure(n)) : json_null();
}

static json_t *known_text(const char *text)
{
        return text && *text ? json_string(text) : json_null();
}

static json_t *span_to_json(const struct span *span)
{
        return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "state",
                         listed_block_name(span->state), "uid",
                         known_number(span->uid != LISTING_NOBODY, span->uid), "pid",
                         known_number(span->pid, span->pid), "program", known_text(span->program),
                         "container", known_text(span->container), "owners_count",
                         json_figure(span->n_owners), "bytes", json_figure(span->n_bytes),
                         "blocks_count", json_figure(span->n_blocks));
}

static json_t *chart_to_json(const struct pool_row *pool, const struct chart *chart)
{
        json_t *spans = json_array();

        for (unsigned i = 0; i < chart->n_spans; i++)
                (void)json_array_append_new(spans, span_to_json(&chart->spans[i]));
        return json_pack("{s:I, s:s, s:s, s:I, s:I, s:o}", "pool", json_figure(pool->id), "kind",
                         format_pool_kind(pool->kind), "name", pool->name, "bytes",
                         json_figure(chart->n_bytes), "free_bytes",
                         json_figure(chart->n_free_bytes), "spans", spans);
}

static int print_json(const struct map *map)
{
        json_t *pools = json_array();

        for (unsigned i = 0; i < map->n; i++)
                (void)json_array_append_new(pools, chart_to_json(map->pools[i], &map->charts[i]));
        return print_json_value(json_pack("{s:o}", "map", pools));
}

static int write_svg(const struct map *map, const char *path)
{
        FILE *file;
        int r = 0;

        if (strcmp(path, "-") == 0) {
                map_draw(map, stdout);
                return STATUS_OK;
        }
        file = fopen(path, "we");
        if (!file) {
                r = errno;
        } else {
                map_draw(map, file);
                if (ferror(file))
                        r = EIO;
                if (fclose(file))
                        r = errno;
        }
        if (!r)
                return STATUS_OK;
        (void)fprintf(stderr, "gpumemctl: --svg: %s: %s\n", path, strerror(r));
        return STATUS_FAILURE;
}

static int run(struct link *link, const struct arguments *arguments)
{
        const struct map_options *map_options = arguments->own;
        CLEANUP(node_state_deinit)
        struct node_state node = NODE_STATE_NULL;
        CLEANUP(map_deinit)
        struct map map = {.n = 0};
        int r;

        if (map_options->svg && strcmp(map_options->svg, "-") == 0 &&
            arguments->output == OUTPUT_JSON) {
                (void)fprintf(stderr,
                              "gpumemctl: --svg - cannot be combined with --json: name a file\n");
                return STATUS_USAGE;
        }
        r = node_state_fetch(link, arguments->pool, &node);
        if (!r)
                r = make(&node, arguments->pool, &map);
        if (r)
                return report_refusal(link, "map", r);
        if (map_options->svg) {
                int status = write_svg(&map, map_options->svg);

                if (status != STATUS_OK || arguments->output != OUTPUT_JSON)
                        return status;
        }
        return arguments->output == OUTPUT_JSON ? print_json(&map) : print_text(&map);
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct map_options *map_options = arguments->own;

        (void)id;
        return parse_file("--svg", value, &map_options->svg);
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_POOL,
        {"svg", required_argument, NULL, MAP_SVG},
        COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"svg", "@file", NULL},
        COMMAND_VALUES_END,
};

const struct command map_command = {
        .name = "map",
        .line = "a picture of each pool by state and owner; --svg writes a file",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct map_options),
};
