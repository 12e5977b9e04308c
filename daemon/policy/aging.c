/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/aging.h"

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "gpumem.h"

/* A release takes the loop as long as so many looks: actions, and a message to the client. */
#define LOOKS_A_RELEASE 16

static unsigned less_a_release(unsigned n_looks)
{
        return n_looks > LOOKS_A_RELEASE ? n_looks - LOOKS_A_RELEASE : 1;
}

int policy_set_pool_keep(struct policy *policy, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        policy->pools[pool]->keep_bytes = keep_bytes;
        policy->pools[pool]->return_after_ns = return_after_ns;
        policy->pools[pool]->cache_grew = true;
        policy->pools[pool]->return_next = policy->pools[pool]->look_next = NULL;
        return 0;
}

static uint64_t n_cached_bytes(const struct pool *pool)
{
        return pool->totals.evictable + pool->totals.mapped_cached;
}

static uint64_t over_bytes(const struct pool *pool)
{
        uint64_t n_bytes = n_cached_bytes(pool);

        return n_bytes > pool->keep_bytes ? n_bytes - pool->keep_bytes : 0;
}

bool policy_ages(const struct policy *policy)
{
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                const struct pool *pool = policy->pools[i];

                if (pool->return_after_ns == POLICY_KEEP_FOR_EVER)
                        continue;
                if (!TAILQ_EMPTY(&pool->leased) ||
                    (over_bytes(pool) && (pool->cache_grew || !pool->returned_all)))
                        return true;
        }
        return false;
}

/* The list is in the order of caching, and a block that a lease had left unused before is older than that: so the scan
 * passes over those that are too young. Blocks are released only whole, and only while keep_bytes remain. */
static unsigned age_cached(struct pool *pool, unsigned n_looks, uint64_t now_ns)
{
        struct block *block = pool->return_next;

        if (!block) {
                block = TAILQ_FIRST(&pool->cached);
                pool->returned_all = pool->returned_all && !pool->cache_grew;
                pool->cache_grew = pool->saw_young = false;
        }
        for (; block && n_looks && over_bytes(pool); n_looks--) {
                struct block *next = TAILQ_NEXT(block, pool_age_link);
                bool is_young = now_ns - block->idle_since_ns < pool->return_after_ns;

                pool->saw_young = pool->saw_young || is_young;
                if (!is_young && !block_is_kept(block) && block->bin->n_bytes <= over_bytes(pool)) {
                        block_release(block);
                        pool->n_aged++;
                        n_looks = less_a_release(n_looks);
                }
                block = next;
        }
        pool->return_next = over_bytes(pool) ? block : NULL;
        pool->returned_all = !block && !pool->cache_grew && !pool->saw_young;
        return n_looks;
}

static bool leaves_minimum(const struct block *block)
{
        return block->holding->totals.leased >=
               block->bin->n_bytes + block->pool->settings.min_bytes;
}

/* With the lease, its client's charge ends, so requests that wait may be served. */
static bool take_back(struct block *block)
{
        struct pool *pool = block->pool;

        if (!lease_revoke(TAILQ_FIRST(&block->leases)))
                return false;
        if (n_cached_bytes(pool) + block->bin->n_bytes <= pool->keep_bytes)
                block_return_to_cache(block);
        else
                block_release(block);
        pool->n_aged += block->state != BLOCK_CACHED;
        pool->unserved = true;
        return true;
}

/* Returns whether the block was taken back. */
static bool look_at(struct block *block, uint64_t now_ns)
{
        if (!block_may_be_idle(block))
                return false;
        if (block_is_kept(block) || !lease_is_idle(TAILQ_FIRST(&block->leases))) {
                block->seen_in_use = true;
                return false;
        }
        if (block->seen_in_use)
                block->idle_since_ns = now_ns;
        block->seen_in_use = false;
        return now_ns - block->idle_since_ns >= block->pool->return_after_ns &&
               leaves_minimum(block) && take_back(block);
}

static unsigned age_leased(struct pool *pool, unsigned n_looks, uint64_t now_ns)
{
        if (!pool->look_next)
                pool->look_next = LIST_FIRST(&pool->blocks);
        for (; pool->look_next && n_looks; n_looks--) {
                struct block *block = pool->look_next;

                pool->look_next = LIST_NEXT(block, pool_link);
                if (look_at(block, now_ns))
                        n_looks = less_a_release(n_looks);
        }
        return n_looks;
}

bool policy_age(struct policy *policy, unsigned n_looks, uint64_t now_ns)
{
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        for (; policy->aging_pool < policy->n_pools; policy->aging_pool++) {
                struct pool *pool = policy->pools[policy->aging_pool];

                if (pool->return_after_ns == POLICY_KEEP_FOR_EVER)
                        continue;
                if (!pool->look_next)
                        n_looks = age_cached(pool, n_looks, policy->now_ns);
                if (!pool->return_next)
                        n_looks = age_leased(pool, n_looks, policy->now_ns);
                if (pool->return_next || pool->look_next)
                        return true;
        }
        policy->aging_pool = 0;
        return false;
}

static void begin_stage(struct pool *pool, enum giving_stage stage)
{
        pool->giving.stage = stage;
        pool->giving.next = NULL;
        pool->giving.n_left = pool->n_leases;
}

static bool is_late(const struct block *block)
{
        const struct client *client = TAILQ_FIRST(&block->leases)->client;

        return client->sums[block->pool->id].n_unresponsive_bytes > 0;
}

static bool is_given(const struct block *block, enum giving_stage stage)
{
        if (!block_is_mapped(block))
                return stage == GIVING_UNMAPPED;
        return stage != GIVING_UNMAPPED && !block_is_kept(block) &&
               is_late(block) == (stage >= GIVING_LATE_MAPPED);
}

static unsigned give(struct pool *pool, struct block *block, unsigned n_looks)
{
        uint64_t n_bytes = block->bin->n_bytes;

        pool->giving.n_bytes -= n_bytes < pool->giving.n_bytes ? n_bytes : pool->giving.n_bytes;
        block_release(block);
        return less_a_release(n_looks);
}

static unsigned give_cached_back(struct pool *pool, unsigned n_looks)
{
        struct giving *giving = &pool->giving;
        struct block *block = giving->next ? giving->next : TAILQ_FIRST(&pool->cached);

        for (; block && n_looks && giving->n_bytes; n_looks--) {
                struct block *next = TAILQ_NEXT(block, pool_age_link);

                if (is_given(block, giving->stage))
                        n_looks = give(pool, block, n_looks);
                block = next;
        }
        giving->next = block;
        if (!block)
                begin_stage(pool, giving->stage + 1);
        return n_looks;
}

/* What stays moves to the end of the list, so that the next part begins with others. */
static unsigned give_idle_back(struct pool *pool, unsigned n_looks)
{
        struct giving *giving = &pool->giving;
        struct block *block;

        while ((block = TAILQ_FIRST(&pool->leased)) && giving->n_left && n_looks &&
               giving->n_bytes) {
                giving->n_left--;
                if (is_given(block, giving->stage) && leaves_minimum(block) &&
                    lease_revoke(TAILQ_FIRST(&block->leases))) {
                        pool->unserved = true;
                        n_looks = give(pool, block, n_looks);
                } else {
                        TAILQ_REMOVE(&pool->leased, block, pool_age_link);
                        TAILQ_INSERT_TAIL(&pool->leased, block, pool_age_link);
                }
                n_looks--;
        }
        if (!block || !giving->n_left)
                begin_stage(pool, giving->stage + 1);
        return n_looks;
}

void policy_give_back(struct policy *policy, uint32_t pool, uint64_t n_bytes)
{
        policy->pools[pool]->giving.n_bytes = n_bytes;
        begin_stage(policy->pools[pool], GIVING_UNMAPPED);
}

static bool has_to_give(const struct pool *pool)
{
        return pool->giving.n_bytes && pool->giving.stage < GIVING_N_STAGES;
}

bool policy_give_some_back(struct policy *policy, unsigned n_looks, uint64_t now_ns)
{
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                struct pool *pool = policy->pools[i];

                while (has_to_give(pool) && n_looks) {
                        bool is_of_leases = pool->giving.stage == GIVING_IDLE ||
                                            pool->giving.stage == GIVING_LATE_IDLE;

                        n_looks = is_of_leases ? give_idle_back(pool, n_looks)
                                               : give_cached_back(pool, n_looks);
                }
                if (has_to_give(pool))
                        return true;
        }
        return false;
}
