/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/block_search.h"

#include "daemon/policy/accounting/quota.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/scheduling/fd_budget.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/bins.h"

/* Of two mapped blocks a cached one is better, then the smaller one, then the one cached last. */
static bool is_better(const struct block *a, const struct block *b)
{
        if (!b || a->state != b->state)
                return !b || a->state == BLOCK_CACHED;
        if (a->bin->n_bytes != b->bin->n_bytes)
                return a->bin->n_bytes < b->bin->n_bytes;
        return a->cached_at > b->cached_at;
}

static bool may_have(const struct request *request, const struct block *block, bool idle_too)
{
        const struct client *client = request->client;

        if (block->state == BLOCK_CACHED)
                return !quota_bars_cached(client, block);
        return idle_too && revoke_idle_is_allowed(block, client);
}

/* A block that the client has returned, or lost, and still maps: leasing it costs no driver call. */
static struct block *find_known(const struct request *request, bool idle_too,
                                struct scan_budget *budget)
{
        struct bin_range fits = request_fits(request);
        const struct lease *lease;
        struct block *found = NULL;

        LIST_FOREACH (lease, &request->client->returned, returned_link) {
                struct block *block = lease->block;

                if (!budget->n_left)
                        break;
                budget->n_left--;
                if (block->holding != request_holding(request) ||
                    !bin_is_in_range(block->bin, &fits))
                        continue;
                if (may_have(request, block, idle_too) && is_better(block, found))
                        found = block;
        }
        if (!found || found->state == BLOCK_CACHED)
                return found;
        return revoke_idle_try(found) ? found : NULL;
}

/* Of those that the client has returned. It may have thousands, and the last ones are the likeliest. */
#define MAPPED_SCANS 64

/* Of equal blocks the one that the client still maps is cheapest: the one cached last. */
static struct block *find_mapped(struct client *client, const struct bin *bin)
{
        unsigned n_left = MAPPED_SCANS;
        struct block *found = NULL;
        struct lease *lease;

        LIST_FOREACH (lease, &client->returned, returned_link) {
                struct block *block = lease->block;

                if (!n_left--)
                        break;
                if (block->bin != bin || block->state != BLOCK_CACHED)
                        continue;
                if (!found || block->cached_at > found->cached_at)
                        found = block;
        }
        return found;
}

static bool maps(const struct client *client, const struct block *block)
{
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->client == client)
                        return true;
        }
        return false;
}

/* The blocks in the bin that a client is charged for. */
static struct block *find_charged_in(const struct bin *bin, const struct client *client,
                                     enum block_search_scope scope, struct scan_budget *budget)
{
        struct block *block, *found = NULL;

        TAILQ_FOREACH (block, &bin->charged, charged_link) {
                if (!budget->n_left)
                        break;
                budget->n_left--;
                if ((scope == BLOCK_SEARCH_OWN && block->charge.client != client) ||
                    quota_bars_cached(client, block))
                        continue;
                if (maps(client, block))
                        return block;
                found = found ? found : block;
        }
        return found;
}

static struct block *find_charged(const struct request *request, enum block_search_scope scope,
                                  struct scan_budget *budget)
{
        const struct bins *bins = &request_holding(request)->bins;
        struct bin_range rest = request_fits(request);
        unsigned n_kept_scans = budget->n_left / 2;
        struct block *block = NULL;

        /* The rest of the budget is for idle leases. */
        budget->n_left -= n_kept_scans;
        while (!block && bins->n_charged && budget->n_left &&
               rest.n_least_bytes <= rest.n_most_bytes) {
                const struct bin *bin = bins_find(bins, BIN_CACHED, &rest);

                if (!bin)
                        break;
                rest.n_least_bytes = bin->n_bytes + 1;
                block = find_charged_in(bin, request->client, scope, budget);
        }
        budget->n_left += n_kept_scans;
        return block;
}

static struct block *find_cached(const struct request *request, struct scan_budget *budget)
{
        const struct bins *bins = &request_holding(request)->bins;
        struct bin_range fits = request_fits(request), less = request_takes(request);
        struct bin *bin = bins_find(bins, BIN_CACHED, &fits);
        struct limit_hit hit;
        struct block *block;

        /* A block may be larger than requested. If this one exceeds a limit, so do all others, except those
         * that the limit counts already. */
        if (bin && quota_is_passed(request->client, request->pool, bin->n_bytes, &hit)) {
                block = find_charged(request, BLOCK_SEARCH_TENANTS, budget);
                if (block)
                        return block;
                bin = NULL;
        }
        if (!bin)
                bin = bins_find_last(bins, BIN_CACHED, &less);
        if (!bin)
                return NULL;
        block = find_mapped(request->client, bin);
        return block ? block : TAILQ_FIRST(&bin->sides[BIN_CACHED]);
}

static struct block *find_idle(const struct request *request, struct scan_budget *budget)
{
        struct bin_range fits = request_fits(request), less = request_takes(request);
        struct holding *holding = request_holding(request);
        struct block *block = revoke_idle_take_one(holding, request->client, &fits,
                                                   REVOKE_IDLE_SMALLEST, budget);

        return block ? block
                     : revoke_idle_take_one(holding, request->client, &less, REVOKE_IDLE_LARGEST,
                                            budget);
}

struct block *block_search_find(const struct request *request, struct scan_budget *budget)
{
        struct block *block = request->known_will_do ? find_known(request, true, budget) : NULL;

        if (request->only_known)
                return block;
        if (!block)
                block = find_cached(request, budget);
        return block ? block : find_idle(request, budget);
}

struct block *block_search_find_cached(const struct request *request, struct scan_budget *budget)
{
        return request->known_will_do ? find_known(request, false, budget)
                                      : find_cached(request, budget);
}

struct block *block_search_find_charged(const struct request *request,
                                        enum block_search_scope scope, struct scan_budget *budget)
{
        struct bin_range fits = request_fits(request);
        struct block *block = NULL;

        if (scope == BLOCK_SEARCH_OWN)
                return find_charged(request, scope, budget);
        if (request->known_will_do)
                block = find_known(request, true, budget);
        if (!block && !request->only_known)
                block = find_charged(request, scope, budget);
        if (!block && !request->only_known)
                block = revoke_idle_take_one(request_holding(request), request->client, &fits,
                                             REVOKE_IDLE_SMALLEST, budget);
        return block && !quota_bars_cached(request->client, block) ? block : NULL;
}

static struct block *find_unowned(const struct request *request)
{
        const struct tenant *unowned = request->client->policy->unowned;
        struct bin_range fits = request_fits(request), less = request_takes(request);
        struct limit_hit hit;
        const struct bins *bins;
        struct bin *bin;

        if (!unowned || !fd_budget_has_room(request->client->tenant, 1))
                return NULL;
        bins = &unowned->holdings[request->pool->id].bins;
        bin = bins_find(bins, BIN_CACHED, &fits);
        /* A block may be larger than requested. */
        if (bin && quota_is_passed(request->client, request->pool, bin->n_bytes, &hit))
                bin = NULL;
        if (!bin)
                bin = bins_find_last(bins, BIN_CACHED, &less);
        return bin ? TAILQ_FIRST(&bin->sides[BIN_CACHED]) : NULL;
}

struct block *block_search_take_unowned(const struct request *request)
{
        struct block *block = find_unowned(request);

        if (!block ||
            block_change_holding(block, &request->client->tenant->holdings[request->pool->id]))
                return NULL;
        return block;
}
