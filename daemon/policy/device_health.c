/* SPDX-License-Identifier: Apache-2.0 */
/* Pools whose driver does not answer, or whose device is lost. */

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/policy.h"
#include "gpumem.h"

/* A lost device's memory is gone. Its blocks are not served again, also after the device is back. */
static void write_off(struct pool *pool)
{
        struct block *block, *next;

        LIST_FOREACH (block, &pool->blocks, pool_link)
                block->unusable = true;
        while (!TAILQ_EMPTY(&pool->cached))
                block_release(TAILQ_FIRST(&pool->cached));
        for (block = TAILQ_FIRST(&pool->leased); block; block = next) {
                next = TAILQ_NEXT(block, pool_age_link);
                if (lease_revoke(TAILQ_FIRST(&block->leases)))
                        block_release(block);
        }
}

int policy_set_driver_status(struct policy *policy, uint32_t id, enum driver_status driver_status,
                             uint64_t now_ns)
{
        struct pool *pool;

        if (id >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        pool = policy->pools[id];
        pool->driver_status = driver_status;
        if (driver_status == DRIVER_LOST)
                write_off(pool);
        policy_expire(policy, now_ns);
        return 0;
}

void policy_not_released(struct policy *policy, struct block *block, uint64_t now_ns)
{
        block_set_unreleasable(block);
        policy_expire(policy, now_ns);
}

int policy_set_unreleasable(struct policy *policy, uint32_t id, uint64_t n_bytes, uint64_t now_ns)
{
        struct pool *pool;

        if (id >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        pool = policy->pools[id];
        if (n_bytes < pool->unreleasable)
                pool->n_backs++;
        pool->totals.lingering += n_bytes - pool->unreleasable;
        pool->unreleasable = n_bytes;
        if (totals_reserved(&pool->totals) > pool->reserved_peak)
                pool->reserved_peak = totals_reserved(&pool->totals);
        policy_expire(policy, now_ns);
        return 0;
}
