/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/tenant.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/accounting/charge_ranking.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/waiting_queue.h"

static void holding_init(struct holding *holding, struct tenant *tenant, struct pool *pool)
{
        holding->tenant = tenant;
        holding->pool = pool;
        bins_init(&holding->bins);
        charge_ranking_init(&holding->ranking, CHARGE_OF_TENANT);
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
        if (numbered_add(&policy->tenants_by_number, tenant, &tenant->number)) {
                free(tenant);
                return -ENOMEM;
        }
        HASH_ADD(hh, policy->tenants, key, sizeof(tenant->key), tenant);
        if (!tenant->hh.tbl) {
                numbered_remove(&policy->tenants_by_number, tenant->number);
                free(tenant);
                return -ENOMEM;
        }
        *ret_tenant = tenant;
        return 0;
}

static bool has_clients(const struct tenant *tenant)
{
        uint64_t n_blocks = 0;

        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                n_blocks += tenant->holdings[i].totals.n_blocks;
        return tenant->n_refs > n_blocks;
}

/* Returns whether a block was released. */
static bool drop_cached(struct tenant *tenant)
{
        struct block *block;
        bool was_any = false;

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                while ((block = TAILQ_FIRST(&tenant->holdings[i].cached))) {
                        block_release(block);
                        was_any = true;
                }
        }
        return was_any;
}

/* Checks the oldest tenant first. */
static void make_room(struct policy *policy, uint32_t uid)
{
        struct tenant *tenant;
        unsigned n = 0;

        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next)
                n += tenant->key.uid == uid;
        if (n < TENANTS_A_USER)
                return;
        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next) {
                if (tenant->key.uid == uid && !has_clients(tenant) && drop_cached(tenant))
                        return;
        }
}

int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant)
{
        struct tenant *tenant;
        int r;

        HASH_FIND(hh, policy->tenants, key, sizeof(*key), tenant);
        if (!tenant) {
                make_room(policy, key->uid);
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

/* A walk may be under way that knows it. */
static void end_holding(struct holding *holding)
{
        waiting_queue_end(holding);
        if (holding->hold.listed && holding->hold.listed == holding->pool->queue.walk.number)
                LIST_REMOVE(&holding->hold, link);
}

struct tenant *tenant_unref(struct tenant *tenant)
{
        if (!tenant || --tenant->n_refs)
                return NULL;
        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                end_holding(&tenant->holdings[i]);
        HASH_DEL(tenant->policy->tenants, tenant);
        numbered_remove(&tenant->policy->tenants_by_number, tenant->number);
        if (tenant->policy->unowned == tenant)
                tenant->policy->unowned = NULL;
        free(tenant);
        return NULL;
}

bool tenant_may_wait(const struct tenant *tenant)
{
        uint32_t n_all = tenant->policy->n_waiting;

        if (!tenant->n_waiting)
                return n_all < TENANTS_MAX_WAITING + TENANTS_FIRST;
        return n_all < TENANTS_MAX_WAITING && tenant->n_waiting < TENANTS_MAX_WAITING - n_all;
}
