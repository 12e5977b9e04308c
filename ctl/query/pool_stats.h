/* SPDX-License-Identifier: Apache-2.0 */
/* The pools and their figures, as the daemon says them in POOLS_REPLY and STATS_REPLY; what stats, devices
 * and others show is made of them. One thread. */
#pragma once

#include <stdint.h>

#include "client/connection/link.h"
#include "ctl/core/command.h"

/* In the same order. */
struct pool_stats {
        uint32_t n;
        struct pool_row *pools; /* names end, and hold nothing that a terminal would carry out */
        struct stats_row *stats;
};

/* Untouched but for what is to be let go, unless 0. */
int pool_stats_fetch(struct link *link, struct pool_stats *ret_figures);

/* "GPU-" and its 36 characters, as NVML writes it. */
#define POOL_STATS_UUID_MAX 41
void pool_stats_uuid(const struct pool_row *pool, char text[static POOL_STATS_UUID_MAX]);

/* For narrow tables: a maker's name tells GPUs of one machine not apart. */
const char *pool_stats_short_name(const struct pool_row *pool);

void pool_stats_deinit(struct pool_stats *pool_stats);

/* Fetches them and prints them: with --json all of them, else by print_table; and that the daemon is ending, if it is. Returns the exit status. */
int pool_stats_show(struct link *link, const struct arguments *arguments, const char *name,
                    int (*print_table)(const struct pool_stats *pool_stats));
