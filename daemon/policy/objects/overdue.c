#include "daemon/policy/objects/overdue.h"

#include "daemon/policy/objects/block.h"

void overdue_expect(struct block *block)
{
        struct pool *pool = block_its_pool(block);

        block->release_ns = pool->policy->now_ns;
        block->is_expected = true;
        TAILQ_INSERT_TAIL(&pool->expected, block, pool_age_link);
}

void overdue_forget(struct block *block)
{
        if (block->is_expected)
                TAILQ_REMOVE(&block_its_pool(block)->expected, block, pool_age_link);
        block->is_expected = false;
}

uint64_t overdue_next(const struct pool *pool)
{
        const struct block *first = TAILQ_FIRST(&pool->expected);

        return first ? first->release_ns + OVERDUE_NS : UINT64_MAX;
}

void overdue_note(struct pool *pool, uint64_t now_ns)
{
        while (overdue_next(pool) <= now_ns) {
                struct block *block = TAILQ_FIRST(&pool->expected);

                overdue_forget(block);
                block_set_overdue(block);
        }
}

/* The one that is charged for it, if it was told, and could still answer. */
static struct client *late_with(const struct block *block)
{
        const struct lease *lease = TAILQ_FIRST(&block->leases);

        return block->is_overdue && lease && lease->recalled && !lease->client->eof &&
                               !lease->client->dead
                       ? lease->client
                       : NULL;
}

static void tell(const struct client *client, const struct block *block)
{
        const struct policy_witness *witness = &client->policy->witness;

        if (witness->late)
                witness->late(witness->argument, client, block_its_pool(block)->id,
                              block->bin->n_bytes);
}

void overdue_blame(struct block *block)
{
        struct client *client = late_with(block);
        struct pool *pool = block_its_pool(block);

        if (client == block->late)
                return;
        if (block->late) {
                block->late->late[pool->id] -= block->bin->n_bytes;
                pool->late -= block->bin->n_bytes;
        }
        block->late = client;
        if (client) {
                client->late[pool->id] += block->bin->n_bytes;
                pool->late += block->bin->n_bytes;
                tell(client, block);
        }
}
