/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's bytes as a row of spans: first what clients lease, then what is idle, cached, lingering, other
 * tenants', each by its owner, and last what is not reserved. Where blocks lie on a device only its driver
 * knows: a chart shows how much there is of what. Pure. */
#pragma once

#include "proto/listing.h"
#include "proto/messages.h"

/* Processes with a letter of their own; others share the last one. */
#define CHART_LETTERS 26

#define CHART_FREE '.'

struct span {
        enum listed_block state;
        char mark; /* leased: A to Z, its owner; idle: the same in lower case; else by the state */
        uint32_t uid;
        uint32_t pid;        /* 0: no process, or several that share a mark */
        uint32_t n_owners;   /* of leased and idle ones; else 1 */
        const char *program; /* the owner's; NULL: unknown */
        const char *container;
        uint64_t n_bytes;
        uint64_t n_blocks;
};

struct chart {
        uint64_t n_bytes; /* of all spans and what is free */
        uint64_t n_free_bytes;
        unsigned n_spans;
        struct span *spans; /* none is empty */
};

/* Of the blocks those of the pool. What the clients' rows say of owners stays theirs. -ENOMEM. */
int chart_make(const struct pool_row *pool, const struct stats_row *stats,
               const struct block_row *blocks, uint32_t n_blocks, const struct client_row *clients,
               uint32_t n_clients, struct chart *ret_chart);

void chart_deinit(struct chart *chart);

/* How much a cell stands for if there are so many at most. */
uint64_t chart_cell_bytes(const struct chart *chart, unsigned n_cells);

/* Fills in, for each cell, which span has most of it: its number, or n_spans if nothing of the cell is
 * reserved. Returns how many cells there are, n_cells at most. */
unsigned chart_cells(const struct chart *chart, unsigned n_cells, unsigned *cells);

/* "leased by process 12 of uid 1000 (python3), in container 0123456789ab"; "idle with process 12 ..." */
#define SPAN_TEXT_MAX 192
void span_describe(const struct span *span, char text[static SPAN_TEXT_MAX]);
