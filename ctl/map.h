/* gpumemctl map: pools as pictures. One thread. */
#pragma once

#include <stdio.h>

#include "ctl/chart.h"
#include "ctl/figures.h"

struct map {
        unsigned n;
        const struct pool_row **pools;
        struct chart *charts; /* in the same order */
};

/* "leased by process 12 of uid 1000 (python3), in container 0123456789ab" */
#define MAP_OWNER_MAX 192
void map_describe(const struct span *span, char text[static MAP_OWNER_MAX]);

/* All of it as one picture. */
void map_draw(const struct map *map, FILE *file);
