/* Peaks of what is reserved, begun anew. */
#include "daemon/policy/client.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/state.h"
#include "gpumem.h"

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
