/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/node_state.h"

#include "base/err.h"

void node_state_deinit(struct node_state *node)
{
        pool_stats_deinit(&node->pool_stats);
        listed_deinit(&node->blocks);
        listed_deinit(&node->clients);
}

int node_state_fetch(struct link *link, uint32_t pool, struct node_state *ret_known)
{
        static const struct listing blocks = {"blocks", MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY,
                                              &block_row_list};
        static const struct listing clients = {"clients", MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                               &client_row_list};
        struct frame request = FRAME_NULL;
        int r;

        request.blocks.pool = pool;
        r = listing_fetch(link, &blocks, &request, &ret_known->blocks);
        if (!r)
                r = pool_stats_fetch(link, &ret_known->pool_stats);
        request = (struct frame)FRAME_NULL;
        return r ? r : listing_fetch(link, &clients, &request, &ret_known->clients);
}

const struct client_row *node_state_client(const struct node_state *node, uint32_t uid,
                                           uint32_t pid)
{
        const struct client_row *clients = (const void *)node->clients.rows;

        for (uint32_t i = 0; i < node->clients.n_rows; i++) {
                if (clients[i].pid == pid && clients[i].uid == uid)
                        return &clients[i];
        }
        return NULL;
}
