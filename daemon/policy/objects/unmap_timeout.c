/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/unmap_timeout.h"

#include "daemon/policy/objects/block.h"

void unmap_timeout_expect(struct block *block)
{
        struct pool *pool = block->pool;

        block->release_ns = pool->policy->now_ns;
        block->is_expected = true;
        TAILQ_INSERT_TAIL(&pool->expected, block, pool_age_link);
}

void unmap_timeout_forget(struct block *block)
{
        if (block->is_expected)
                TAILQ_REMOVE(&block->pool->expected, block, pool_age_link);
        block->is_expected = false;
}

uint64_t unmap_timeout_next(const struct pool *pool)
{
        const struct block *first = TAILQ_FIRST(&pool->expected);

        return first ? first->release_ns + UNMAP_TIMEOUT_NS : UINT64_MAX;
}

void unmap_timeout_note_next(struct pool *pool)
{
        struct block *block = TAILQ_FIRST(&pool->expected);

        unmap_timeout_forget(block);
        block_set_unmap_timed_out(block);
}

/* The client that is charged for the block, if it was told to unmap it and can still answer. */
static struct client *find_unresponsive_holder(const struct block *block)
{
        const struct lease *lease = TAILQ_FIRST(&block->leases);

        return block->unmap_timed_out && lease && lease->recalled && !lease->client->is_ending
                       ? lease->client
                       : NULL;
}

static void tell(const struct client *client, const struct block *block)
{
        const struct policy_witness *witness = &client->policy->witness;

        if (witness->unresponsive)
                witness->unresponsive(witness->argument, client, block->pool->id,
                                      block->bin->n_bytes);
}

void unmap_timeout_update_holder(struct block *block)
{
        struct client *client = find_unresponsive_holder(block);
        struct pool *pool = block->pool;

        if (client == block->unresponsive_holder)
                return;
        if (block->unresponsive_holder) {
                block->unresponsive_holder->sums[pool->id]
                        .n_unresponsive_bytes -= block->bin->n_bytes;
                pool->unresponsive -= block->bin->n_bytes;
        }
        block->unresponsive_holder = client;
        if (client) {
                client->sums[pool->id].n_unresponsive_bytes += block->bin->n_bytes;
                pool->unresponsive += block->bin->n_bytes;
                tell(client, block);
        }
}
