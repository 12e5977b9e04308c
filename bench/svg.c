/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/svg.h"

#include <math.h>

#include "ctl/output/svg.h"

#define N_COLUMNS    2
#define MARGIN       24
#define HEAD_HEIGHT  48
#define PANEL_WIDTH  440
#define PANEL_GAP    28
#define TITLE_HEIGHT 30
#define BAR_HEIGHT   16
#define BAR_STEP     23
#define LABEL_WIDTH  146
#define FIGURE_WIDTH 76
#define BAR_WIDTH    (PANEL_WIDTH - LABEL_WIDTH - FIGURE_WIDTH)
#define WIDTH        (2 * MARGIN + N_COLUMNS * PANEL_WIDTH + (N_COLUMNS - 1) * PANEL_GAP)

static const char style[] = ".theirs{fill:#a9b4bf}\n"
                            ".ours{fill:#0969da}\n"
                            ".cut{stroke:#ffffff;stroke-width:3;fill:none}\n"
                            ".mine{font-weight:600}\n"
                            "@media (prefers-color-scheme:dark){\n"
                            ".cut{stroke:#0d1117}\n"
                            ".theirs{fill:#656c76}\n"
                            ".ours{fill:#4493f8}\n"
                            "}\n";

/* A bar that is so many times longer than the next one is cut, since the others could not be told apart
 * beside it. */
#define CUT_TIMES 8

/* The value of a full bar. gpumemd's bar is never cut. */
static double full_value(const struct svg_panel *panel)
{
        double most = 0, next = 0;
        int is_theirs = 0;

        for (unsigned i = 0; i < panel->n_bars; i++) {
                double value = panel->bars[i].value;

                if (value > most) {
                        next = most;
                        most = value;
                        is_theirs = panel->bars[i].whose == SVG_THEIRS;
                } else if (value > next) {
                        next = value;
                }
        }
        return is_theirs && next > 0 && most > CUT_TIMES * next ? 1.25 * next : most;
}

static void print_cut(double x, double y, FILE *file)
{
        (void)fprintf(file, "<path d=\"M%g %gl-8 %dm6 0l8 -%d\" class=\"cut\"/>\n", x, y - 1,
                      BAR_HEIGHT + 2, BAR_HEIGHT + 2);
}

/* The shortest bars are still visible. */
static void print_bar(const struct svg_bar *bar, double x, double y, double full, FILE *file)
{
        double width = full > 0 ? BAR_WIDTH * fmin(bar->value / full, 1) : 0;
        const char *class = bar->whose == SVG_OURS ? "mine" : "";
        double base = y + BAR_HEIGHT - 4;

        if (width < 2)
                width = 2;
        svg_text(x + LABEL_WIDTH - 8, base, class, "end", bar->label, file);
        (void)fprintf(file,
                      "<rect x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"%d\" rx=\"2\" "
                      "class=\"%s\"/>\n",
                      x + LABEL_WIDTH, y, width, BAR_HEIGHT,
                      bar->whose == SVG_OURS ? "ours" : "theirs");
        if (bar->value > full)
                print_cut(x + LABEL_WIDTH + width - 14, y, file);
        svg_text(x + LABEL_WIDTH + width + 6, base, class, "start", bar->figure, file);
}

static void print_panel(const struct svg_panel *panel, double x, double y, FILE *file)
{
        double full = full_value(panel);

        svg_text(x, y + 13, "title", "start", panel->title, file);
        svg_text(x + PANEL_WIDTH, y + 13, "hint", "end", panel->hint, file);
        for (unsigned i = 0; i < panel->n_bars; i++)
                print_bar(&panel->bars[i], x, y + TITLE_HEIGHT - 6 + i * BAR_STEP, full, file);
}

/* The height of a row of panels is that of its tallest. */
static unsigned height_of(const struct svg_panel *panels, unsigned n_panels)
{
        unsigned n_bars = 0;

        for (unsigned i = 0; i < n_panels && i < N_COLUMNS; i++) {
                if (panels[i].n_bars > n_bars)
                        n_bars = panels[i].n_bars;
        }
        return TITLE_HEIGHT + n_bars * BAR_STEP + PANEL_GAP / 2;
}

void svg_print(const char *title, const struct svg_panel *panels, unsigned n_panels, FILE *file)
{
        unsigned height = HEAD_HEIGHT + MARGIN;

        for (unsigned i = 0; i < n_panels; i += N_COLUMNS)
                height += height_of(panels + i, n_panels - i);
        svg_begin(title, WIDTH, height, style, file);
        svg_text(MARGIN, MARGIN + 8, "head", "start", title, file);
        height = HEAD_HEIGHT + 8;
        for (unsigned i = 0; i < n_panels; i++) {
                double column = i % N_COLUMNS;

                print_panel(&panels[i], MARGIN + column * (PANEL_WIDTH + PANEL_GAP), height, file);
                if (i % N_COLUMNS == N_COLUMNS - 1)
                        height += height_of(panels + i - (N_COLUMNS - 1), N_COLUMNS);
        }
        svg_end(file);
}
