/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/node_state.h"

void node_state_deinit(struct node_state *node)
{
        pool_stats_deinit(&node->pool_stats);
        listed_deinit(&node->blocks);
        listed_deinit(&node->clients);
}

int node_state_fetch(struct link *link, uint32_t pool, struct node_state *ret_known)
{
        struct frame request = FRAME_NULL;
        int r;

        request.blocks.pool = pool;
        r = listing_fetch(link, &listing_blocks, &request, &ret_known->blocks);
        if (!r)
                r = pool_stats_fetch(link, &ret_known->pool_stats);
        request = FRAME_NULL;
        return r ? r : listing_fetch(link, &listing_clients, &request, &ret_known->clients);
}

const struct client_row *client_of_block(const struct block_row *block,
                                         const struct client_row *clients, uint32_t n_clients)
{
        for (uint32_t i = 0; block->pid && i < n_clients; i++) {
                if (clients[i].pid == block->pid && clients[i].uid == block->uid)
                        return &clients[i];
        }
        return NULL;
}
