/* SPDX-License-Identifier: Apache-2.0 */
/* Draws panels of bars as an SVG picture that is legible on light and dark pages. One thread. */
#pragma once

#include <stdio.h>

#define SVG_TEXT_MAX 96
#define SVG_BARS_MAX 8

struct svg_bar {
        char label[SVG_TEXT_MAX];
        char figure[SVG_TEXT_MAX]; /* text at its end */
        double value;              /* not negative */
        enum { SVG_THEIRS, SVG_OURS } whose;
};

/* The longest bar fills the panel, or is cut if it is far longer than the others. */
struct svg_panel {
        char title[SVG_TEXT_MAX];
        char hint[SVG_TEXT_MAX]; /* tells whether less or more is better */
        unsigned n_bars;
        struct svg_bar bars[SVG_BARS_MAX];
};

void svg_print(const char *title, const struct svg_panel *panels, unsigned n_panels, FILE *file);
