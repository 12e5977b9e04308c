/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of limits at run time. */

#include "daemon/policy/policy.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/state/limits.h"
#include "gpumem.h"

void policy_set_limits(struct policy *policy, struct limits *take_table, uint64_t now_ns)
{
        limits_free(policy->limits);
        policy->limits = take_table;
        policy_expire(policy, now_ns);
}

const struct limits *policy_limits(const struct policy *policy)
{
        return policy->limits;
}

static int set(struct limits *table, enum limit_scope scope, uint32_t uid, enum limit_kind kind,
               uint64_t max)
{
        struct limit_set *every = scope == LIMIT_OF_CLIENT ? &table->client : &table->tenant;

        if (uid != POLICY_EVERY_UID)
                return limits_set_uid(table, uid, kind, max);
        every->max[kind] = max == LIMIT_INHERIT ? LIMIT_NONE : max;
        return 0;
}

int policy_set_limit(struct policy *policy, enum limit_scope scope, uint32_t uid,
                     enum limit_kind kind, uint64_t max, uint64_t now_ns)
{
        int r = 0;

        if (scope == LIMIT_OF_CLIENT && uid != POLICY_EVERY_UID)
                return GPUMEM_E_BAD_REQUEST;
        if (!policy->limits)
                r = limits_new(&policy->limits);
        if (!r)
                r = set(policy->limits, scope, uid, kind, max);
        if (r)
                return r;
        policy_expire(policy, now_ns);
        return 0;
}

int policy_set_pool_min(struct policy *policy, uint32_t pool, uint64_t min_bytes, uint64_t now_ns)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        policy->pools[pool]->settings.min_bytes = min_bytes;
        policy_expire(policy, now_ns);
        return 0;
}

int policy_set_pool_max(struct policy *policy, uint32_t pool, uint64_t max_bytes, uint64_t now_ns)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        policy->pools[pool]->settings.max_bytes = max_bytes;
        evict_cached_begin_to_limit(policy->pools[pool]);
        policy_expire(policy, now_ns);
        return 0;
}

void policy_set_max_blocks(struct policy *policy, uint64_t n_blocks)
{
        policy->max_blocks = n_blocks;
}
