/* SPDX-License-Identifier: Apache-2.0 */
/* SVG pictures, legible on light and on dark pages; gpumem-bench draws with it, too. One thread. */
#pragma once

#include <stdio.h>

/* The head, with the title and a ground of the whole size; `style` is the picture's own CSS. */
void svg_begin(const char *title, unsigned width, unsigned height, const char *style, FILE *file);

void svg_end(FILE *file);

/* A text as it may stand between tags and in attributes. */
void svg_escape(const char *text, FILE *file);

/* `anchor`: "start", "middle" or "end" is at x. */
void svg_text(double x, double y, const char *class, const char *anchor, const char *text,
              FILE *file);
