/* SPDX-License-Identifier: Apache-2.0 */
/* BLOCKS: a row for each block. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"

struct blocks {
        struct listing listing;
        const struct session *asker;
        uint32_t pool; /* or PROTO_ALL_POOLS */
        uint64_t now_ns;
        struct block_row others[]; /* other tenants' blocks in each pool, added up */
};

static uint32_t listed_state(enum block_listed state)
{
        switch (state) {
        case BLOCK_IS_LEASED:
                return LISTED_LEASED;
        case BLOCK_IS_CACHED:
                return LISTED_CACHED;
        case BLOCK_IS_LINGERING:
                break;
        }
        return LISTED_LINGERING;
}

static uint64_t age_ms(const struct blocks *blocks, uint64_t since_ns)
{
        return blocks->now_ns > since_ns ? (blocks->now_ns - since_ns) / NS_PER_MS : 0;
}

static uint32_t pid_of(const struct client *client)
{
        const struct session *session = client ? client_owner(client) : NULL;

        return session ? (uint32_t)session->peer.pid : 0;
}

static void add_block(const struct block_listing *block, void *argument)
{
        struct blocks *blocks = argument;
        struct block_row *others = &blocks->others[block->pool];
        struct block_row row = {
                .block = block->id,
                .pool = block->pool,
                .kind = others->kind,
                .state = block->is_idle ? LISTED_IDLE : listed_state(block->state),
                .properties = block->properties,
                .uid = block->uid,
                .pid = pid_of(block->charged),
                .holders = block->n_holders,
                .bytes = block->n_bytes,
                .blocks = 1,
                .lease = block->lease_id,
                .passed_on = block->n_charge_transfers,
                .age = age_ms(blocks, block->made_ns),
                .state_age = age_ms(blocks, block->since_ns),
        };

        listing_note_unused(&blocks->listing, block);
        if (blocks->pool != PROTO_ALL_POOLS && blocks->pool != block->pool)
                return;
        if (rows_may_show(blocks->asker, block->tenant)) {
                (void)row_buffer_add(&blocks->listing.rows, &row);
        } else {
                others->bytes += block->n_bytes;
                others->blocks++;
        }
}

static bool add_blocks(struct walk *walk)
{
        return policy_list_blocks(walk->asker->server->policy, &walk->place, add_block, walk);
}

static bool add_others(struct walk *walk)
{
        struct blocks *blocks = CONTAINER_OF(walk, struct blocks, listing.walk);

        for (uint32_t i = 0; i < walk->asker->server->n_pools; i++) {
                if (blocks->others[i].blocks)
                        (void)row_buffer_add(&blocks->listing.rows, &blocks->others[i]);
        }
        return false;
}

void list_blocks_take(struct session *session, const struct frame *frame)
{
        static bool (*const parts[])(struct walk * walk) = {add_blocks,    listing_add_boards,
                                                            add_others,    listing_write_rows,
                                                            listing_reply, NULL};
        const struct server *server = session->server;
        uint32_t pool = frame->blocks.pool;
        struct blocks *blocks;

        if (pool >= server->n_pools && pool != PROTO_ALL_POOLS) {
                session_refuse_pool(session, frame->serial, pool);
                return;
        }
        blocks = calloc(1, sizeof(*blocks) + server->n_pools * sizeof(blocks->others[0]));
        for (uint32_t i = 0; blocks && i < server->n_pools; i++)
                blocks->others[i] = (struct block_row){.pool = i,
                                                       .kind = server->pools[i].row.kind,
                                                       .state = LISTED_SUM,
                                                       .uid = LISTING_NOBODY,
                                                       .holders = LISTING_UNTOLD,
                                                       .age = LISTING_UNTOLD,
                                                       .state_age = LISTING_UNTOLD,
                                                       .passed_on = LISTING_UNTOLD};
        if (blocks) {
                blocks->asker = session;
                blocks->pool = pool;
                blocks->now_ns = server_now_ns(server);
                row_buffer_init(&blocks->listing.rows, session, sizeof(struct block_row));
                blocks->listing.reply_kind = MESSAGE_BLOCKS_REPLY;
        }
        listing_begin(session, frame, blocks ? &blocks->listing : NULL, parts);
}
