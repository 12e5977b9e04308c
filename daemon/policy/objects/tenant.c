/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/tenant.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/owner.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/waiting_queue.h"

static void holding_init(struct holding *holding, struct tenant *tenant, struct pool *pool)
{
        holding->tenant = tenant;
        holding->pool = pool;
        bins_init(&holding->bins);
        ranking_init(&holding->by_charge);
        TAILQ_INIT(&holding->cached);
        TAILQ_INIT(&holding->leased);
        TAILQ_INIT(&holding->waiting);
}

static int tenant_new(struct owner *owner, const struct tenant_key *key, struct tenant **ret_tenant)
{
        struct policy *policy = owner->policy;
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
        owner_add(owner, tenant);
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
static bool drop_some_cached(struct tenant *tenant)
{
        unsigned n_left = TENANTS_BLOCKS_A_TIME;
        struct block *block;

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                while (n_left && (block = TAILQ_FIRST(&tenant->holdings[i].cached))) {
                        block_release(block);
                        n_left--;
                }
        }
        return n_left < TENANTS_BLOCKS_A_TIME;
}

static void make_room(struct owner *owner)
{
        if (owner->n_tenants < TENANTS_AN_OWNER)
                return;
        for (unsigned n = 0; n < TENANTS_LOOKS_A_TIME; n++) {
                struct tenant *tenant = TAILQ_FIRST(&owner->tenants);

                if (!has_clients(tenant) && drop_some_cached(tenant))
                        return;
                TAILQ_REMOVE(&owner->tenants, tenant, owner_link);
                TAILQ_INSERT_TAIL(&owner->tenants, tenant, owner_link);
        }
}

static int tenant_begin(struct policy *policy, const struct tenant_key *key,
                        const struct tenant_key *owner_key, struct tenant **ret_tenant)
{
        struct owner *owner;
        int r = owner_get(policy, owner_key, &owner);

        if (r)
                return r;
        make_room(owner);
        r = tenant_new(owner, key, ret_tenant);
        if (r)
                owner_end(owner);
        return r;
}

int tenant_get(struct policy *policy, const struct tenant_key *key,
               const struct tenant_key *owner_key, struct tenant **ret_tenant)
{
        struct tenant *tenant;
        int r;

        HASH_FIND(hh, policy->tenants, key, sizeof(*key), tenant);
        if (!tenant) {
                r = tenant_begin(policy, key, owner_key, &tenant);
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
                waiting_queue_end(&tenant->holdings[i]);
        HASH_DEL(tenant->policy->tenants, tenant);
        owner_remove(tenant);
        numbered_remove(&tenant->policy->tenants_by_number, tenant->number);
        if (tenant->policy->unowned == tenant)
                tenant->policy->unowned = NULL;
        free(tenant);
        return NULL;
}

/* First places do not count. A tenant and its owner are weighed together: so all tenants of one owner have two thirds at
 * most, and one that is its owner's only one has half. */
static bool has_places(const struct tenant *tenant, uint32_t n)
{
        const struct owner *owner = tenant->owner;
        uint32_t n_all = tenant->policy->n_waiting - tenant->policy->n_first;
        uint32_t n_own = tenant->n_waiting - tenant->has_first;
        uint32_t n_owners = owner->n_waiting - owner->n_first;
        uint32_t n_more = n - 1;

        return n_all + n_more < TENANTS_MAX_WAITING &&
               n_own + n_owners + 2 * n_more < 2 * (TENANTS_MAX_WAITING - n_all - n_more);
}

static bool has_first_place(const struct tenant *tenant)
{
        uint32_t n_all = tenant->policy->n_first;

        if (!tenant->owner->n_waiting)
                return n_all < TENANTS_FIRST;
        return !tenant->n_waiting && n_all < TENANTS_FIRST / 2 &&
               tenant->owner->n_first < TENANTS_FIRST / 2 - n_all;
}

bool tenant_may_wait(const struct tenant *tenant)
{
        return has_places(tenant, 1) || has_first_place(tenant);
}

bool tenant_may_part(const struct tenant *tenant, uint32_t n_parts)
{
        return n_parts < 2 || !tenant->owner->n_making || has_places(tenant, n_parts - 1);
}

void tenant_begin_wait(struct tenant *tenant)
{
        if (!tenant->n_waiting && !has_places(tenant, 1)) {
                tenant->has_first = true;
                tenant->owner->n_first++;
                tenant->policy->n_first++;
        }
        tenant->n_waiting++;
        tenant->owner->n_waiting++;
        tenant->policy->n_waiting++;
}

void tenant_end_wait(struct tenant *tenant)
{
        tenant->n_waiting--;
        tenant->owner->n_waiting--;
        tenant->policy->n_waiting--;
        if (tenant->n_waiting || !tenant->has_first)
                return;
        tenant->has_first = false;
        tenant->owner->n_first--;
        tenant->policy->n_first--;
}
