/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/fd_budget.h"

#include "base/size.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/scheduling/revoke_idle.h"

/* A block is only released as a whole, so asking for one byte releases one block. */
#define ONE_BLOCK 1

struct count {
        uint64_t all, of_owner, own;
};

uint64_t fd_budget_n_open(const struct policy *policy)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++)
                n += policy->pools[i]->totals.n_open;
        return n;
}

static struct count n_open(const struct tenant *tenant)
{
        struct count n = {.all = fd_budget_n_open(tenant->policy), .own = tenant->n_open};

        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                n.of_owner += tenant->owner->owned[i].n_open;
        return n;
}

/* A stalled driver closes no handles for now. */
static bool closes(const struct pool *pool)
{
        return pool->driver_status == DRIVER_SERVES;
}

/* The same when everything that is being released is gone. */
static struct count n_open_soon(const struct tenant *tenant)
{
        struct count n = n_open(tenant);

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                const struct holding *holding = &tenant->holdings[i];

                if (!closes(holding->pool))
                        continue;
                n.all -= holding->pool->totals.n_closing;
                n.of_owner -= tenant->owner->owned[i].n_closing;
                n.own -= holding->totals.n_closing;
        }
        return n;
}

static uint64_t n_kept(const struct policy *policy)
{
        return policy->max_blocks / FD_BUDGET_KEPT_PART;
}

/* A tenant and its owner are weighed together. */
static bool has_share(const struct tenant *tenant, struct count n)
{
        uint64_t max = tenant->policy->max_blocks;

        return n.all < max - n_kept(tenant->policy) &&
               (n.own + n.of_owner) / FD_BUDGET_SHARE < max - n.all;
}

/* How many blocks the owner has beyond what its tenants together may have by their shares: with each that it has less,
 * one more is left. */
static uint64_t n_beyond(const struct tenant *tenant, struct count n)
{
        uint64_t n_most = FD_BUDGET_SHARE * (tenant->policy->max_blocks - n.all);

        return n.of_owner > n_most ? (n.of_owner - n_most) / (FD_BUDGET_SHARE + 1) : 0;
}

/* A tenant without blocks. What its owner has of the part kept for such tenants is not noted: no more than its tenants
 * that have blocks, and no more than all have. */
static bool finds_kept(const struct tenant *tenant, struct count n)
{
        const struct policy *policy = tenant->policy;
        uint64_t n_all = policy->max_blocks - n_kept(policy), n_firsts = n_kept(policy) / 2;
        uint64_t n_used = n.all > n_all ? n.all - n_all : 0, n_owners;

        if (n.all >= policy->max_blocks || !n.of_owner)
                return n.all < policy->max_blocks;
        n_owners = size_larger(n_beyond(tenant, n),
                               size_smaller(n_used, tenant->owner->n_with_blocks));
        return n_used < n_firsts && n_owners < n_firsts - n_used;
}

static bool has_room(const struct tenant *tenant, struct count n, uint32_t n_more)
{
        n.all += n_more - 1;
        n.of_owner += n_more - 1;
        n.own += n_more - 1;
        return has_share(tenant, n) || (!n.own && finds_kept(tenant, n));
}

bool fd_budget_has_room(const struct tenant *tenant, uint32_t n_more)
{
        return has_room(tenant, n_open(tenant), n_more);
}

static bool evict_own(struct tenant *tenant, enum evict_kind kind)
{
        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                if (closes(tenant->holdings[i].pool) &&
                    evict_cached_own(&tenant->holdings[i], ONE_BLOCK, kind))
                        return true;
        }
        return false;
}

static bool release_idle(const struct request *request, struct scan_budget *budget)
{
        struct idle_leases own = {.n = 0};

        revoke_idle_add_own(&own, &request->client->tenant->holdings[request->pool->id], NULL,
                            budget);
        revoke_idle_drop_kept(&own);
        return revoke_idle_release(&own, NULL, ONE_BLOCK) > 0;
}

/* Releases other tenants' cached blocks only if that is enough: the tenant's own share may be used up. */
static bool evict_others(struct tenant *tenant, uint32_t n_more)
{
        struct count n = n_open_soon(tenant);

        if (!n.all)
                return false;
        n.all--;
        if (!has_room(tenant, n, n_more))
                return false;
        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                if (closes(tenant->holdings[i].pool) &&
                    evict_cached(&tenant->holdings[i], ONE_BLOCK, EVICT_UNMAPPED))
                        return true;
        }
        return false;
}

bool fd_budget_recall(const struct request *request, struct scan_budget *budget)
{
        struct tenant *tenant = request->client->tenant;

        while (!has_room(tenant, n_open_soon(tenant), request->n_to_make)) {
                if (!evict_own(tenant, EVICT_UNMAPPED) && !evict_own(tenant, EVICT_MAPPED) &&
                    !evict_others(tenant, request->n_to_make) && !release_idle(request, budget))
                        return false;
        }
        return true;
}
