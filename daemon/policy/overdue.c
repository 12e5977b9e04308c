#include "daemon/policy/overdue.h"

#include "daemon/policy/block.h"
#include "daemon/policy/client.h"
#include "daemon/policy/lease.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/state.h"

void overdue_expect(struct block *block)
{
        struct pool *pool = block_its_pool(block);

        block->let_go_ns = pool->policy->now_ns;
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

        return first ? first->let_go_ns + OVERDUE_NS : UINT64_MAX;
}

void overdue_note(struct pool *pool, uint64_t now_ns)
{
        while (overdue_next(pool) <= now_ns) {
                struct block *block = TAILQ_FIRST(&pool->expected);

                overdue_forget(block);
                block_set_overdue(block);
        }
}

uint64_t client_overdue(const struct client *client, uint32_t pool)
{
        const struct lease *lease;
        uint64_t n_bytes = 0;

        LIST_FOREACH (lease, &client->returned, returned_link) {
                const struct block *block = lease->block;

                /* Several of its leases may be for one block: the last one is charged. */
                if (block && block->is_overdue && TAILQ_FIRST(&block->leases) == lease &&
                    block_its_pool(block)->id == pool)
                        n_bytes += block->bin->n_bytes;
        }
        return n_bytes;
}
