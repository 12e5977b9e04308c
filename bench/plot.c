/* SPDX-License-Identifier: Apache-2.0 */
/* plot: draws the results of peers as a picture: the most important comparisons, each with all
 * participants. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/commands.h"
#include "bench/svg.h"

#define BESIDE "_beside_"

#define LESS "less is better"
#define MORE "more is better"

/* Drawn in this order. */
static const struct {
        const char *name, *title, *hint;
} drawn[] = {
        {"hot", "Alloc and free that hit, 64 live", LESS},
        {"random", "Alloc and free, 1000 live of any size", LESS},
        {"threads_8", "Alloc and free that hit, 8 threads", MORE},
        {"threads_16", "Alloc and free that hit, 16 threads", MORE},
        {"node_4_processes", "Held / live, four processes at once", LESS},
        {"block_1GiB", "A block of 1 GiB: had and given back", LESS},
        {"known_1GiB", "The same, while it is still mapped", LESS},
        {"first_block", "The first 20 MiB of a process", LESS},
        {"start", "From a process's start to 20 MiB", LESS},
};

static const struct {
        const char *peer, *label;
} labels[] = {
        {"torch", "PyTorch"},
        {"torch_cpp", "PyTorch from C++"},
        {"torch_expandable", "PyTorch, expandable"},
        {"cupy", "CuPy"},
};

static const char *label_of(const char *peer)
{
        for (unsigned i = 0; i < ARRAY_SIZE(labels); i++) {
                if (strcmp(labels[i].peer, peer) == 0)
                        return labels[i].label;
        }
        return peer;
}

static void add_bar(struct svg_panel *panel, const char *label, double value, const char *unit,
                    int is_ours)
{
        struct svg_bar *bar;

        if (panel->n_bars == SVG_BARS_MAX)
                return;
        bar = &panel->bars[panel->n_bars++];
        bar->value = value;
        bar->whose = is_ours ? SVG_OURS : SVG_THEIRS;
        (void)snprintf(bar->label, SVG_TEXT_MAX, "%s", label);
        row_format_value(value, unit, SVG_TEXT_MAX, bar->figure);
}

/* A row without a value, or of another comparison, adds nothing. */
static void add_row(struct svg_panel *panel, const char *name, const json_t *row)
{
        const char *row_name = json_string_value(json_object_get(row, "name"));
        const char *unit = json_string_value(json_object_get(row, "unit"));
        const json_t *value = json_object_get(row, "value");
        const json_t *baseline = json_object_get(row, "baseline");
        size_t n = strlen(name);

        if (!row_name || !unit || !json_is_number(value) || !json_is_number(baseline) ||
            strncmp(row_name, name, n) != 0 || strncmp(row_name + n, BESIDE, strlen(BESIDE)) != 0)
                return;
        if (!panel->n_bars)
                add_bar(panel, "gpumemd", json_number_value(value), unit, 1);
        add_bar(panel, label_of(row_name + n + strlen(BESIDE)), json_number_value(baseline), unit,
                0);
}

static unsigned make_panels(const json_t *rows, struct svg_panel panels[static ARRAY_SIZE(drawn)])
{
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(drawn); i++) {
                struct svg_panel *panel = &panels[n];
                const json_t *row;
                size_t at;

                *panel = (struct svg_panel){.n_bars = 0};
                (void)snprintf(panel->title, SVG_TEXT_MAX, "%s", drawn[i].title);
                (void)snprintf(panel->hint, SVG_TEXT_MAX, "%s", drawn[i].hint);
                json_array_foreach(rows, at, row) add_row(panel, drawn[i].name, row);
                n += panel->n_bars > 0;
        }
        return n;
}

/* Reads the rows of all files into one array. */
static int read_all(const struct options *options, json_t *rows)
{
        for (unsigned i = 0; i < options->n_files; i++) {
                const char *file = options->files[i];
                json_error_t error;
                json_t *array = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
                int r = array && json_is_array(array) ? json_array_extend(rows, array) : -1;

                if (!array && error.line < 0)
                        (void)fprintf(stderr, "gpumem-bench: %s\n", error.text);
                else if (!array)
                        (void)fprintf(stderr, "gpumem-bench: %s:%d: %s\n", file, error.line,
                                      error.text);
                else if (r)
                        (void)fprintf(stderr, "gpumem-bench: %s: not an array of rows\n", file);
                json_decref(array);
                if (r)
                        return -EINVAL;
        }
        return 0;
}

int command_plot(const struct options *options, struct rows *rows)
{
        struct svg_panel panels[ARRAY_SIZE(drawn)];
        json_t *read = json_array();
        unsigned n = 0;
        int r = read ? read_all(options, read) : -ENOMEM;

        (void)rows;
        if (!r)
                n = make_panels(read, panels);
        json_decref(read);
        if (!r && !n) {
                (void)fprintf(stderr, "gpumem-bench: the files have no row that plot draws\n");
                r = -ENODATA;
        }
        if (!r)
                svg_print("gpumemd beside others, in one run", panels, n, stdout);
        return r;
}
