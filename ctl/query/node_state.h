/* SPDX-License-Identifier: Apache-2.0 */
/* All that a daemon says of its memory, of nearly one moment: pools and their figures, blocks, clients.
 * One thread. */
#pragma once

#include "ctl/query/listing.h"
#include "ctl/query/pool_stats.h"

struct node_state {
        struct pool_stats pool_stats;
        struct listed blocks;  /* struct block_row */
        struct listed clients; /* struct client_row */
};

#define NODE_STATE_NULL                 \
        {                               \
                .pool_stats = {.n = 0 } \
        }

void node_state_deinit(struct node_state *node);

/* Of the blocks those of the pool, or of all: PROTO_ALL_POOLS. What was fetched before a failure is for
 * node_state_deinit. */
int node_state_fetch(struct link *link, uint32_t pool, struct node_state *ret_known);

/* The client's row of that process and user; NULL if there is none. */
const struct client_row *node_state_client(const struct node_state *node, uint32_t uid,
                                           uint32_t pid);
