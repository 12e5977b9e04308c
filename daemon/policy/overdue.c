#include "daemon/policy/overdue.h"

#include "daemon/policy/block.h"
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
