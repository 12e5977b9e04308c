#include "ctl/query/node_state.h"

#include "base/err.h"

void known_deinit(struct known *known)
{
        pool_stats_deinit(&known->pool_stats);
        listed_deinit(&known->blocks);
        listed_deinit(&known->clients);
}

int known_fetch(struct link *link, uint32_t pool, struct known *ret_known)
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

const struct client_row *known_client(const struct known *known, uint32_t uid, uint32_t pid)
{
        const struct client_row *clients = (const void *)known->clients.rows;

        for (uint32_t i = 0; i < known->clients.n_rows; i++) {
                if (clients[i].pid == pid && clients[i].uid == uid)
                        return &clients[i];
        }
        return NULL;
}
