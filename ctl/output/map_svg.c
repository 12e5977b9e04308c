/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/map_svg.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"
#include "ctl/output/svg.h"

#define MARGIN      24
#define BAR_WIDTH   880
#define BAR_HEIGHT  44
#define HEAD_HEIGHT 48
#define TITLE       26
#define LINE_HEIGHT 20
#define GAP         26
#define WIDTH       (2 * MARGIN + BAR_WIDTH)

/* Owners of the same state are told apart by how strong its colour is. */
#define N_SHADES 3

static const char style[] = ".free{fill:#eaeef2;stroke:#d1d9e0}\n"
                            ".leased{fill:#1a7f37}\n"
                            ".idle{fill:#bf8700}\n"
                            ".cached{fill:#0969da}\n"
                            ".lingering{fill:#cf222e}\n"
                            ".others{fill:#8250df}\n"
                            ".mark{fill:#ffffff;font-weight:600}\n"
                            "@media (prefers-color-scheme:dark){\n"
                            ".free{fill:#21262d;stroke:#3d444d}\n"
                            "}\n";

static unsigned height_of(const struct chart *chart)
{
        return TITLE + BAR_HEIGHT + 10 + (chart->n_spans + 1) * LINE_HEIGHT + GAP;
}

static void draw_rect(double x, double y, double width, double height, const struct chart *chart,
                      unsigned i, FILE *file)
{
        (void)fprintf(file,
                      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"%s\" "
                      "fill-opacity=\"%.2f\">",
                      x, y, width, height,
                      i < chart->n_spans ? listed_block_name(chart->spans[i].state) : "free",
                      i < chart->n_spans ? 1 - 0.2 * (i % N_SHADES) : 1.0);
}

static void describe(const struct chart *chart, unsigned i, char text[static SPAN_TEXT_MAX])
{
        if (i < chart->n_spans)
                span_describe(&chart->spans[i], text);
        else
                (void)snprintf(text, SPAN_TEXT_MAX, "not reserved");
}

static uint64_t bytes_of(const struct chart *chart, unsigned i)
{
        return i < chart->n_spans ? chart->spans[i].n_bytes : chart->n_free_bytes;
}

static void draw_bar(const struct chart *chart, double y, FILE *file)
{
        double x = MARGIN, full = chart->n_bytes ? (double)chart->n_bytes : 1;

        for (unsigned i = 0; i <= chart->n_spans; i++) {
                double width = BAR_WIDTH * ((double)bytes_of(chart, i) / full);
                char text[SPAN_TEXT_MAX], size[SIZE_TEXT_MAX], mark[2] = "";

                describe(chart, i, text);
                draw_rect(x, y, width, BAR_HEIGHT, chart, i, file);
                (void)fprintf(file, "<title>%s, ", size_format(bytes_of(chart, i), size));
                svg_escape(text, file);
                (void)fputs("</title></rect>\n", file);
                if (i < chart->n_spans && width >= 14) {
                        mark[0] = chart->spans[i].mark;
                        svg_text(x + width / 2, y + BAR_HEIGHT / 2.0 + 5, "mark", "middle", mark,
                                 file);
                }
                x += width;
        }
}

static void draw_legend(const struct chart *chart, double top, FILE *file)
{
        for (unsigned i = 0; i <= chart->n_spans; i++) {
                double y = top + i * LINE_HEIGHT;
                char text[SPAN_TEXT_MAX], size[SIZE_TEXT_MAX];
                char mark[2] = {i < chart->n_spans ? chart->spans[i].mark : CHART_FREE, '\0'};

                describe(chart, i, text);
                draw_rect(MARGIN, y, 12, 12, chart, i, file);
                (void)fputs("</rect>\n", file);
                svg_text(MARGIN + 24, y + 11, "title", "middle", mark, file);
                svg_text(MARGIN + 120, y + 11, "", "end", size_format(bytes_of(chart, i), size),
                         file);
                svg_text(MARGIN + 132, y + 11, "", "start", text, file);
        }
}

void map_draw(const struct map *map, FILE *file)
{
        unsigned height = HEAD_HEIGHT + MARGIN;
        double y = HEAD_HEIGHT + 8;

        for (unsigned i = 0; i < map->n; i++)
                height += height_of(&map->charts[i]);
        svg_begin("gpumemd: what each pool's bytes are", WIDTH, height, style, file);
        svg_text(MARGIN, MARGIN + 8, "head", "start", "gpumemd: what each pool's bytes are", file);
        for (unsigned i = 0; i < map->n; i++) {
                const struct chart *chart = &map->charts[i];
                char title[SPAN_TEXT_MAX], size[SIZE_TEXT_MAX];

                (void)snprintf(title, sizeof(title), "pool %" PRIu32 " (%s): %s", map->pools[i]->id,
                               map->pools[i]->name, size_format(chart->n_bytes, size));
                svg_text(MARGIN, y + 13, "title", "start", title, file);
                draw_bar(chart, y + TITLE, file);
                draw_legend(chart, y + TITLE + BAR_HEIGHT + 10, file);
                y += height_of(chart);
        }
        svg_end(file);
}
