/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/state/waiting_queue.h"

int pool_new(struct policy *policy, uint32_t id, const struct policy_pool *settings,
             struct pool **ret_pool)
{
        struct pool *pool = calloc(1, sizeof(*pool));

        if (!pool)
                return -ENOMEM;
        pool->policy = policy;
        pool->id = id;
        pool->settings = *settings;
        pool->return_after_ns = POLICY_KEEP_FOR_EVER;
        ranking_init(&pool->by_charge);
        for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                ranking_init(&pool->by_cached[kind]);
        LIST_INIT(&pool->blocks);
        TAILQ_INIT(&pool->cached);
        TAILQ_INIT(&pool->leased);
        TAILQ_INIT(&pool->expected);
        waiting_queue_init(&pool->queue);
        *ret_pool = pool;
        return 0;
}

struct pool *pool_free(struct pool *pool)
{
        if (!pool)
                return NULL;
        assert(LIST_EMPTY(&pool->blocks) && TAILQ_EMPTY(&pool->expected) &&
               TAILQ_EMPTY(&pool->queue.holdings));
        free(pool);
        return NULL;
}

uint64_t pool_room(const struct pool *pool)
{
        uint64_t reserved = totals_reserved(&pool->totals);

        return reserved < pool->settings.max_bytes ? pool->settings.max_bytes - reserved : 0;
}

uint64_t pool_debt(const struct pool *pool)
{
        uint64_t n_bytes = totals_reserved(&pool->totals) - pool->totals.incoming;

        return n_bytes > pool->settings.max_bytes ? n_bytes - pool->settings.max_bytes : 0;
}

uint64_t pool_excess(const struct pool *pool)
{
        uint64_t n_bytes = pool->totals.leased + pool->totals.cached;

        return n_bytes > pool->settings.max_bytes ? n_bytes - pool->settings.max_bytes : 0;
}
