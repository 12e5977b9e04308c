/* SPDX-License-Identifier: Apache-2.0 */
/* BLOCKS: a row for each block. */
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/lists/rows.h"
#include "gpumem.h"

struct walk {
        const struct session *asker;
        uint64_t now_ns;
        struct row_buffer buffer;
        struct block_row others; /* other tenants' blocks in the current pool, added up */
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

static uint64_t age_ms(const struct walk *walk, uint64_t since_ns)
{
        return walk->now_ns > since_ns ? (walk->now_ns - since_ns) / NS_PER_MS : 0;
}

static uint32_t pid_of(const struct client *client)
{
        const struct session *session = client ? client_owner(client) : NULL;

        return session ? (uint32_t)session->peer.pid : 0;
}

static void add_block(const struct block_listing *block, void *argument)
{
        struct walk *walk = argument;
        struct block_row row = {
                .block = block->id,
                .pool = block->pool,
                .kind = walk->others.kind,
                .state = block->is_idle ? LISTED_IDLE : listed_state(block->state),
                .properties = block->properties,
                .uid = block->uid,
                .pid = pid_of(block->charged),
                .holders = block->n_holders,
                .bytes = block->n_bytes,
                .blocks = 1,
                .lease = block->lease_id,
                .passed_on = block->n_charge_transfers,
                .age = age_ms(walk, block->made_ns),
                .state_age = age_ms(walk, block->since_ns),
        };

        if (rows_may_show(walk->asker, block->tenant)) {
                row_buffer_add(&walk->buffer, &row);
        } else {
                walk->others.bytes += block->n_bytes;
                walk->others.blocks++;
        }
}

static void walk_pool(struct walk *walk, uint32_t pool)
{
        const struct server *server = walk->asker->server;

        walk->others = (struct block_row){.pool = pool,
                                          .kind = server->pools[pool].row.kind,
                                          .state = LISTED_SUM,
                                          .uid = LISTING_NOBODY,
                                          .holders = LISTING_UNTOLD,
                                          .age = LISTING_UNTOLD,
                                          .state_age = LISTING_UNTOLD,
                                          .passed_on = LISTING_UNTOLD};
        policy_list_blocks(server->policy, pool, add_block, walk);
        if (walk->others.blocks)
                row_buffer_add(&walk->buffer, &walk->others);
}

static void answer(struct session *session, const struct frame *frame)
{
        struct walk walk = {.asker = session,
                            .now_ns = server_now_ns(session->server),
                            .buffer = {.n_row_bytes = sizeof(struct block_row)}};
        uint32_t pool = frame->blocks.pool, n_pools = session->server->n_pools;

        if (pool >= n_pools && pool != PROTO_ALL_POOLS) {
                session_refuse_pool(session, frame->serial, pool);
                return;
        }
        (void)policy_see_idle(session->server->policy);
        for (uint32_t i = 0; i < n_pools; i++) {
                if (pool == i || pool == PROTO_ALL_POOLS)
                        walk_pool(&walk, i);
        }
        rows_reply(session, frame, MESSAGE_BLOCKS_REPLY, &walk.buffer);
        row_buffer_deinit(&walk.buffer);
}

void list_blocks_take(struct session *session, const struct frame *frame)
{
        list_stats_begin(session, frame, answer);
}
