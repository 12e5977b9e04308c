/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/prewarm.h"

#include "base/size.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/scheduling/fd_budget.h"
#include "gpumem.h"

#define BLOCK_UNIT (2 * MIB)

/* A rest below the smallest size is made as one block. */
uint64_t prewarm_next(struct prewarm *prewarm, uint64_t n_left_bytes)
{
        unsigned found = 0;

        if (n_left_bytes < 2 * PREWARM_LEAST_BYTES) {
                prewarm->n_bytes[0] += n_left_bytes;
                return n_left_bytes;
        }
        for (unsigned i = 1; i < PREWARM_N_SIZES && PREWARM_LEAST_BYTES << i <= n_left_bytes; i++) {
                if (prewarm->n_bytes[i] < prewarm->n_bytes[found])
                        found = i;
        }
        prewarm->n_bytes[found] += PREWARM_LEAST_BYTES << found;
        return PREWARM_LEAST_BYTES << found;
}

static int check(const struct policy *policy, uint32_t pool, uint64_t n_bytes)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        if (n_bytes == 0 || n_bytes % BLOCK_UNIT)
                return GPUMEM_E_BAD_REQUEST;
        if (policy->pools[pool]->driver_status != DRIVER_SERVES)
                return GPUMEM_E_STALLED;
        if (policy->pools[pool]->closing || policy->pools[pool]->n_waiting ||
            pool_room(policy->pools[pool]) < n_bytes)
                return GPUMEM_E_REFUSED;
        return 0;
}

int policy_prewarm(struct policy *policy, uint32_t pool, uint64_t n_bytes, uint64_t now_ns)
{
        const struct tenant_key unowned = {.uid = POLICY_NO_UID};
        struct tenant *tenant;
        int r = check(policy, pool, n_bytes);

        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        if (!r)
                r = tenant_get(policy, &unowned, &tenant);
        if (r)
                return r;
        policy->unowned = tenant;
        r = fd_budget_has_room(tenant, 1) ? block_prewarm(&tenant->holdings[pool], n_bytes)
                                          : GPUMEM_E_TOO_MANY;
        tenant_unref(tenant);
        return r;
}

int policy_set_pool_keep(struct policy *policy, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        policy->pools[pool]->keep_bytes = keep_bytes;
        policy->pools[pool]->return_after_ns = return_after_ns;
        policy->pools[pool]->cache_grew = true;
        return 0;
}

static uint64_t over_bytes(const struct pool *pool)
{
        uint64_t n_bytes = pool->totals.evictable + pool->totals.mapped_cached;

        if (pool->return_after_ns == POLICY_KEEP_FOR_EVER || n_bytes <= pool->keep_bytes)
                return 0;
        return n_bytes - pool->keep_bytes;
}

bool policy_keeps_more(const struct policy *policy)
{
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                const struct pool *pool = policy->pools[i];

                if (over_bytes(pool) && (pool->cache_grew || !pool->returned_all))
                        return true;
        }
        return false;
}

/* The list is sorted by the time of caching, so the scan ends at the first block that is too young. Blocks
 * are released only whole, and only while keep_bytes remain. One pass is enough unless more is cached
 * meanwhile. */
static void return_cached(struct pool *pool, unsigned n_scans, uint64_t now_ns)
{
        struct block *block = pool->return_next;

        if (!block) {
                block = TAILQ_FIRST(&pool->cached);
                pool->returned_all = pool->returned_all && !pool->cache_grew;
                pool->cache_grew = false;
        }
        for (; block && n_scans && over_bytes(pool); n_scans--) {
                struct block *next = TAILQ_NEXT(block, pool_age_link);

                if (now_ns - block->since_ns < pool->return_after_ns) {
                        pool->return_next = NULL;
                        return;
                }
                if (!block_is_kept(block) && block->bin->n_bytes <= over_bytes(pool))
                        block_release(block);
                block = next;
        }
        pool->return_next = over_bytes(pool) ? block : NULL;
        pool->returned_all = !block && !pool->cache_grew;
}

void policy_return_cached(struct policy *policy, unsigned n_scans, uint64_t now_ns)
{
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        for (uint32_t i = 0; i < policy->n_pools; i++)
                return_cached(policy->pools[i], n_scans, policy->now_ns);
}
