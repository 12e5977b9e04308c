#include "daemon/policy/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int pool_new(struct policy *policy, uint32_t id, const struct policy_pool *settings,
             struct pool **ret_pool)
{
        struct pool *pool = calloc(1, sizeof(*pool));

        if (!pool)
                return -ENOMEM;
        pool->policy = policy;
        pool->id = id;
        pool->settings = *settings;
        LIST_INIT(&pool->blocks);
        TAILQ_INIT(&pool->cached);
        TAILQ_INIT(&pool->waiting);
        *ret_pool = pool;
        return 0;
}

struct pool *pool_free(struct pool *pool)
{
        if (!pool)
                return NULL;
        assert(LIST_EMPTY(&pool->blocks) && TAILQ_EMPTY(&pool->waiting));
        free(pool);
        return NULL;
}

uint64_t pool_room(const struct pool *pool)
{
        return pool->settings.max_bytes - totals_reserved(&pool->totals);
}
