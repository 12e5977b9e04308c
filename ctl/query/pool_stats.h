/* The pools and their figures, as the daemon says them in POOLS_REPLY and STATS_REPLY; what stats, devices
 * and others show is made of them. One thread. */
#pragma once

#include <stdint.h>

#include "client/link.h"
#include "ctl/core/command.h"

/* In the same order. */
struct figures {
        uint32_t n;
        struct pool_row *pools; /* names end, and hold nothing that a terminal would carry out */
        struct stats_row *stats;
};

/* Untouched but for what is to be let go, unless 0. */
int figures_fetch(struct link *link, struct figures *ret_figures);

/* "GPU-" and its 36 characters, as NVML writes it. */
#define FIGURES_UUID_MAX 41
void figures_uuid(const struct pool_row *pool, char text[static FIGURES_UUID_MAX]);

/* For narrow tables: a maker's name tells GPUs of one machine not apart. */
const char *figures_short_name(const struct pool_row *pool);

void figures_deinit(struct figures *figures);

/* Fetches them and prints them: with --json all of them, else by print_table; and that the daemon is ending, if it is. Returns the exit status. */
int figures_show(struct link *link, const struct arguments *arguments, const char *name,
                 int (*print_table)(const struct figures *figures));
