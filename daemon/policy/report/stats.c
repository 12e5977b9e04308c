/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/report/stats.h"

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/scheduling/fd_budget.h"
#include "gpumem.h"

static void see(struct block *block)
{
        if (block_may_be_idle(block))
                block_set_seen_idle(block, lease_is_idle(TAILQ_FIRST(&block->leases)));
}

struct block *policy_next_block(struct policy *policy, struct numbered_walk *walk)
{
        struct block *block = numbered_next(&policy->blocks, walk);

        if (block)
                see(block);
        return block;
}

void policy_see_some_idle(struct policy *policy, uint32_t pool, unsigned n_max)
{
        struct block *block;

        TAILQ_FOREACH (block, &policy->pools[pool]->leased, pool_age_link) {
                if (!n_max--)
                        break;
                see(block);
        }
}

uint64_t policy_n_changes(const struct policy *policy)
{
        return policy->n_changes;
}

uint64_t policy_idle_bytes(const struct policy *policy, uint32_t pool)
{
        return pool < policy->n_pools ? policy->pools[pool]->seen_idle_bytes : 0;
}

int policy_pool_stats(const struct policy *policy, uint32_t pool_id, struct pool_stats *ret_stats)
{
        const struct pool *pool;

        if (pool_id >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        pool = policy->pools[pool_id];
        *ret_stats = (struct pool_stats){
                .max = pool->settings.max_bytes,
                .leased = pool->totals.leased,
                .registered = pool->totals.registered,
                .cached = pool->totals.cached,
                .lingering = pool->totals.lingering,
                .timed_out = pool->totals.timed_out,
                .returning = pool->totals.returning,
                .unresponsive = pool->unresponsive,
                .reserved = totals_reserved(&pool->totals),
                .reserved_peak = pool->reserved_peak,
                .leased_peak = pool->leased_peak,
                .cached_peak = pool->cached_peak,
                .charged = pool->charged,
                .declared = pool->declared,
                .n_blocks = pool->totals.n_blocks,
                .n_leases = pool->n_leases,
                .n_waiting = pool->n_waiting,
                .n_grants_from_cache = pool->n_grants_from_cache,
                .n_creates = pool->n_creates,
                .n_releases = pool->n_releases,
                .n_refusals = pool->n_refusals,
                .n_revocations = pool->n_revocations,
                .n_known_grants = pool->n_known_grants,
                .n_notices = pool->n_notices,
                .n_aged = pool->n_aged,
        };
        return 0;
}

uint64_t client_charged(const struct client *client, uint32_t pool)
{
        return pool < client->policy->n_pools ? charge_sum_bytes(&client->sums[pool]) : 0;
}

/* Their number is in the policy, and that in the client: the first two will do. */
void client_prefetch_charges(const struct client *client)
{
        __builtin_prefetch(client);
        __builtin_prefetch(&client->sums[0].ranked[CHARGE_OF_POOL]);
        __builtin_prefetch(&client->sums[1].ranked[CHARGE_OF_POOL]);
}

uint64_t client_unresponsive(const struct client *client, uint32_t pool)
{
        return pool < client->policy->n_pools ? client->sums[pool].n_unresponsive_bytes : 0;
}

void *client_owner(const struct client *client)
{
        return client->owner;
}

uint64_t lease_id(const struct lease *lease)
{
        return lease->id;
}

uint32_t lease_slot(const struct lease *lease)
{
        return lease->slot;
}

struct block *lease_block(const struct lease *lease)
{
        return lease->block;
}

uint64_t block_id(const struct block *block)
{
        return block->id;
}

uint32_t block_pool(const struct block *block)
{
        return block->pool->id;
}

uint64_t block_bytes(const struct block *block)
{
        return block->bin->n_bytes;
}

uint32_t block_properties(const struct block *block)
{
        return block->bin->properties;
}

void *block_backing(const struct block *block)
{
        return block->backing;
}

bool block_is_unowned(const struct block *block)
{
        const struct policy *policy = block->pool->policy;

        return policy->unowned && block->holding->tenant == policy->unowned;
}

bool block_is_awaited(const struct block *block)
{
        return block->state == BLOCK_CREATING || (block->state == BLOCK_CREATING_FOR_CACHE &&
                                                  block_is_unowned(block) && !block->pool->closing);
}

bool block_may_be_used(const struct block *block)
{
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->left_in_use)
                        return true;
        }
        return false;
}

bool client_maps_anything(const struct client *client)
{
        if (!TAILQ_EMPTY(&client->leases))
                return true;
        for (uint32_t i = 0; i < client->policy->n_pools; i++) {
                if (client->declared[i].n_bytes)
                        return true;
        }
        return false;
}

const struct usage *client_usage(const struct client *client)
{
        return &client->usage;
}

const struct usage *client_tenant_usage(const struct client *client)
{
        return &client->tenant->usage;
}

const struct usage *client_kept(const struct client *client)
{
        return &client->kept;
}

const struct usage *client_tenant_kept(const struct client *client)
{
        return &client->tenant->kept;
}

uint64_t policy_open_blocks(const struct policy *policy)
{
        return fd_budget_n_open(policy);
}

static void reset_holding(struct holding *holding)
{
        holding->reserved_peak = totals_reserved(&holding->totals);
}

static void reset_pool(struct pool *pool)
{
        struct tenant *tenant;

        for (tenant = pool->policy->tenants; tenant; tenant = tenant->hh.next)
                reset_holding(&tenant->holdings[pool->id]);
        pool->reserved_peak = totals_reserved(&pool->totals);
        pool->leased_peak = pool->totals.leased;
        pool->cached_peak = pool->totals.cached;
}

int policy_reset_peaks(struct policy *policy, const struct client *client, enum policy_scope scope,
                       uint32_t pool)
{
        if (pool >= policy->n_pools && pool != POLICY_ALL_POOLS)
                return GPUMEM_E_NO_POOL;
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                if (pool != POLICY_ALL_POOLS && pool != i)
                        continue;
                if (scope == SCOPE_NODE)
                        reset_pool(policy->pools[i]);
                else
                        reset_holding(&client->tenant->holdings[i]);
        }
        return 0;
}
