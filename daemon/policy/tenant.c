#include "daemon/policy/tenant.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/line.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/state.h"

static void holding_init(struct holding *holding, struct tenant *tenant, struct pool *pool)
{
        holding->tenant = tenant;
        holding->pool = pool;
        bins_init(&holding->bins);
        TAILQ_INIT(&holding->cached);
        TAILQ_INIT(&holding->leased);
        TAILQ_INIT(&holding->waiting);
}

static int tenant_new(struct policy *policy, const struct tenant_key *key,
                      struct tenant **ret_tenant)
{
        struct tenant *tenant;

        tenant = calloc(1, sizeof(*tenant) + policy->n_pools * sizeof(tenant->holdings[0]));
        if (!tenant)
                return -ENOMEM;
        tenant->policy = policy;
        tenant->key = *key;
        tenant->n_holdings = policy->n_pools;
        for (uint32_t i = 0; i < policy->n_pools; i++)
                holding_init(&tenant->holdings[i], tenant, policy->pools[i]);
        HASH_ADD(hh, policy->tenants, key, sizeof(tenant->key), tenant);
        if (!tenant->hh.tbl) {
                free(tenant);
                return -ENOMEM;
        }
        *ret_tenant = tenant;
        return 0;
}

int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant)
{
        struct tenant *tenant;
        int r;

        HASH_FIND(hh, policy->tenants, key, sizeof(*key), tenant);
        if (!tenant) {
                r = tenant_new(policy, key, &tenant);
                if (r)
                        return r;
        }
        *ret_tenant = tenant_ref(tenant);
        return 0;
}

struct tenant *tenant_ref(struct tenant *tenant)
{
        tenant->n_refs++;
        return tenant;
}

struct tenant *tenant_unref(struct tenant *tenant)
{
        if (!tenant || --tenant->n_refs)
                return NULL;
        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                line_end(&tenant->holdings[i]);
        HASH_DEL(tenant->policy->tenants, tenant);
        free(tenant);
        return NULL;
}
