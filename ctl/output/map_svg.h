/* SPDX-License-Identifier: Apache-2.0 */
/* Pools as a picture in SVG: a bar a pool, of a part for each span, and a legend below it. One thread. */
#pragma once

#include <stdio.h>

#include "ctl/output/chart.h"

struct map {
        unsigned n;
        const struct pool_row **pools;
        struct chart *charts; /* in the same order */
};

/* All of it as one picture. */
void map_draw(const struct map *map, FILE *file);
