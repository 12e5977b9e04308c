/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/fd_budget.h"

#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/scheduling/revoke_idle.h"

/* A block is only released as a whole, so asking for one byte releases one block. */
#define ONE_BLOCK 1

struct count {
        uint64_t all, own;
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
        struct count n = {.all = fd_budget_n_open(tenant->policy)};

        for (uint32_t i = 0; i < tenant->n_holdings; i++)
                n.own += tenant->holdings[i].totals.n_open;
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
                n.own -= holding->totals.n_closing;
        }
        return n;
}

static bool has_room(const struct tenant *tenant, struct count n, uint32_t n_more)
{
        uint64_t max = tenant->policy->max_blocks, kept;

        n.all += n_more - 1;
        n.own += n_more - 1;
        kept = n.own ? max / FD_BUDGET_KEPT_PART : 0;
        return n.all < max - kept && n.own / FD_BUDGET_SHARE < max - n.all;
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
