/* SPDX-License-Identifier: Apache-2.0 */
/* All that a daemon says of its memory, of nearly one moment: pools and their figures, blocks, clients. One thread. */
#pragma once

#include "ctl/query/listing.h"
#include "ctl/query/pool_stats.h"

struct node_state {
        struct pool_stats pool_stats;
        struct listed blocks;  /* struct block_row */
        struct listed clients; /* struct client_row */
};

#define NODE_STATE_NULL ((struct node_state){.pool_stats = {.n = 0}})

void node_state_deinit(struct node_state *node);

/* Of the blocks those of the pool, or of all: PROTO_ALL_POOLS. What was fetched before a failure is for
 * node_state_deinit. */
int node_state_fetch(struct link *link, uint32_t pool, struct node_state *ret_known);

/* The row of the client that is charged for the block; NULL if there is none. */
const struct client_row *client_of_block(const struct block_row *block,
                                         const struct client_row *clients, uint32_t n_clients);
