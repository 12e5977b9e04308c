/* SPDX-License-Identifier: Apache-2.0 */
/* What gpumemctl top shows: a bar a pool, a row a client. Pure. */
#pragma once

#include <stdbool.h>

#include "proto/listing.h"
#include "proto/messages.h"

/* What rows are sorted by; the largest stand first, of pids and names the first. */
enum top_sort {
        TOP_LEASED,
        TOP_IDLE,
        TOP_LINGERING,
        TOP_BLOCKS,
        TOP_WAITING,
        TOP_AGE,
        TOP_PID,
        TOP_PROGRAM,
        TOP_SORTS,
};

/* "leased"; NULL for TOP_SORTS. */
const char *top_sort_name(enum top_sort sort);

struct top_row {
        uint32_t pid; /* 0: no process: other tenants, or blocks that are charged to no client */
        uint32_t uid;
        uint32_t state;    /* enum listed_client; 0: it has no connection */
        uint64_t n_leased; /* bytes; the idle ones too */
        uint64_t n_idle;
        uint64_t n_lingering;
        uint64_t n_declared; /* of an earlier daemon's blocks */
        uint64_t n_blocks;
        uint64_t n_waiting;
        uint64_t age_ms; /* LISTING_UNTOLD: not told */
        const char *program;
        const char *container;
};

/* Of the blocks of a pool, or of PROTO_ALL_POOLS, and of all clients then. Programs' names stay the
 * clients' rows'. -ENOMEM. */
int top_rows_make(const struct block_row *blocks, uint32_t n_blocks,
                  const struct client_row *clients, uint32_t n_clients, uint32_t pool,
                  struct top_row **ret_rows, unsigned *ret_n);

/* Equal ones by pid and uid. */
void top_rows_sort(struct top_row *rows, unsigned n, enum top_sort sort, bool is_reverse);

/* The parts of a pool's bar, in this order. */
enum top_part {
        TOP_PART_USED, /* leased, and not idle; or held since before the daemon's start */
        TOP_PART_IDLE,
        TOP_PART_CACHED,
        TOP_PART_LINGERING,
        TOP_PART_OTHERS, /* on the device, and not of gpumemd's clients */
        TOP_PARTS,
};

/* So many of n_cells cells for each part; what there is at all has one, as long as there are any. Returns
 * what the whole bar stands for: the device's memory, or what the pool may be. */
uint64_t top_bar(const struct pool_row *pool, const struct stats_row *stats, unsigned n_cells,
                 unsigned cells[static TOP_PARTS]);
