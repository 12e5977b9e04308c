/* SPDX-License-Identifier: Apache-2.0 */
/* The pools and their figures, as the daemon says them in POOLS_REPLY and STATS_REPLY; what stats, devices
 * and others show is made of them. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection/link.h"
#include "ctl/core/command.h"
#include "ctl/output/table.h"

/* In the same order. */
struct pool_stats {
        uint32_t n;
        struct pool_row *pools; /* names end, and hold nothing that a terminal would carry out */
        struct stats_row *stats;
};

/* Untouched but for what is to be let go, unless 0. */
int pool_stats_fetch(struct link *link, struct pool_stats *ret_figures);

/* For narrow tables: a maker's name tells GPUs of one machine not apart. */
const char *pool_stats_short_name(const struct pool_row *pool);

/* Whether there is that pool, or PROTO_ALL_POOLS is asked for. GPUMEM_E_NO_POOL, and report_failure says which there
 * are. */
int pool_stats_check_pool(const struct pool_stats *pool_stats, uint32_t pool);

void pool_stats_deinit(struct pool_stats *pool_stats);

/* All figures of a pool, with their units in their names, and what it is. */
struct json_t;
struct json_t *pool_stats_to_json(const struct pool_row *pool, const struct stats_row *stats);

/* A row for each pool, or for each that is a device. */
struct pool_table {
        const struct table_column *columns;
        unsigned n_columns;
        enum { POOL_TABLE_OF_ALL, POOL_TABLE_OF_DEVICES } of;
        void (*fill_row)(struct table_row *row, const struct pool_row *pool,
                         const struct stats_row *stats);
};

/* Fetches them and prints them: with --json all figures, and those of the loop, else the table, wide or narrow; and that the daemon is ending,
 * if it is. Returns the exit status. */
int pool_stats_show(struct link *link, const struct arguments *arguments, const char *name,
                    const struct pool_table *narrow, const struct pool_table *wide);
