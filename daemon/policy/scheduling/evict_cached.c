/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/evict_cached.h"

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/accounting/quota.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/walk_part.h"

/* A block that is about to be created and charged. */
struct newcomer {
        const struct client *client;
        struct usage usage;
};

static bool is_kind(const struct block *block, enum evict_kind kind)
{
        if (block_is_kept(block))
                return kind == EVICT_KEPT;
        return block_is_mapped(block) ? kind == EVICT_MAPPED : kind == EVICT_UNMAPPED;
}

/* Whether the block, charged to the client that maps it until it is unmapped, would exceed a limit, or
 * leave no room below it for the new block. */
static bool would_pass_limit(const struct block *block, const struct newcomer *newcomer)
{
        const struct client *mapper = TAILQ_FIRST(&block->leases)->client;
        const struct usage nothing = {{0}};
        bool is_client = mapper == newcomer->client;
        bool is_tenant = mapper->tenant == newcomer->client->tenant;

        if (block->charge.client == mapper)
                return false;
        return quota_bars(mapper, LIMIT_OF_CLIENT, block->pool, block->bin->n_bytes,
                          is_client ? &newcomer->usage : &nothing) ||
               quota_bars(mapper, LIMIT_OF_TENANT, block->pool, block->bin->n_bytes,
                          is_tenant ? &newcomer->usage : &nothing);
}

static bool is_meant(const struct block *block, enum evict_kind kind,
                     const struct newcomer *newcomer)
{
        return is_kind(block, kind) &&
               (!newcomer || !block_is_mapped(block) || !would_pass_limit(block, newcomer));
}

/* So many blocks of a holding that no limit lets go end the search for others in it: there may be thousands. */
#define BARRED_MAX 16

/* One for each walk and kind, never 0. */
static uint64_t search_of(const struct holding *holding, enum evict_kind kind)
{
        return holding->tenant->policy->n_walks << 2 | (uint64_t)(kind + 1);
}

/* The walk's last part may have ended in a search here. What that passed can have become of the kind since: when the search
 * has met all, it begins with the first again. Not so a search to a limit, which clients could keep from its end. */
static struct block *first_of(const struct holding *holding, enum evict_kind kind)
{
        if (holding->evict_search == search_of(holding, kind) &&
            (holding->evict_next || holding->pool->evicts_to_limit))
                return holding->evict_next;
        return TAILQ_FIRST(&holding->cached);
}

static void note_place(struct holding *holding, enum evict_kind kind, struct block *next)
{
        bool is_over = holding->tenant->policy->n_looks_left && !holding->pool->evicts_to_limit;

        holding->evict_next = is_over ? NULL : next;
        holding->evict_search = search_of(holding, kind);
}

static uint64_t evict_own(struct holding *holding, uint64_t n_bytes, enum evict_kind kind,
                          const struct newcomer *newcomer)
{
        struct policy *policy = holding->tenant->policy;
        struct block *block, *next;
        uint64_t n_evicted_bytes = 0;
        unsigned n_barred = 0;

        /* The place of a search for another kind stays. */
        if (!totals_cached_of(&holding->totals, kind) || !policy->n_looks_left)
                return 0;
        for (block = first_of(holding, kind);
             block && n_evicted_bytes < n_bytes && totals_cached_of(&holding->totals, kind) &&
             policy->n_looks_left;
             block = next) {
                next = TAILQ_NEXT(block, holding_link);
                policy->n_looks_left--;
                if (!is_meant(block, kind, newcomer)) {
                        n_barred += is_kind(block, kind);
                        if (n_barred == BARRED_MAX)
                                break;
                        continue;
                }
                n_evicted_bytes += block->bin->n_bytes;
                part_count_release(policy);
                block_release(block);
        }
        note_place(holding, kind, block);
        return n_evicted_bytes;
}

uint64_t evict_cached_own(struct holding *holding, uint64_t n_bytes, enum evict_kind kind)
{
        return evict_own(holding, n_bytes, kind, NULL);
}

/* Of one that has most no more is taken than until others have as much, by powers of two. */
static uint64_t evict_of(const struct pool *pool, const struct owned *owned, uint64_t n_bytes,
                         enum evict_kind kind, const struct newcomer *newcomer)
{
        struct ranking_walk walk = RANKING_WALK(&owned->by_cached[kind]);
        struct ranked *ranked;
        uint64_t n_evicted_bytes = 0;

        while (n_evicted_bytes < n_bytes && pool->policy->n_looks_left &&
               (ranked = ranking_walk_next(&walk)))
                n_evicted_bytes += evict_own(
                        CONTAINER_OF(ranked, struct holding, cached_sums[kind]),
                        size_smaller(n_bytes - n_evicted_bytes, ranking_bytes_to_fall(ranked)),
                        kind, newcomer);
        return n_evicted_bytes;
}

static uint64_t evict_any(struct pool *pool, uint64_t n_bytes, enum evict_kind kind,
                          const struct newcomer *newcomer)
{
        struct ranking_walk walk = RANKING_WALK(&pool->by_cached[kind]);
        struct ranked *ranked;
        uint64_t n_evicted_bytes = 0;

        while (n_evicted_bytes < n_bytes && totals_cached_of(&pool->totals, kind) &&
               pool->policy->n_looks_left && (ranked = ranking_walk_next(&walk)))
                n_evicted_bytes += evict_of(
                        pool, CONTAINER_OF(ranked, struct owned, cached_sums[kind]),
                        size_smaller(n_bytes - n_evicted_bytes, ranking_bytes_to_fall(ranked)),
                        kind, newcomer);
        return n_evicted_bytes;
}

static uint64_t evict(struct holding *asker, uint64_t n_bytes, enum evict_kind kind,
                      const struct newcomer *newcomer)
{
        uint64_t n_own_bytes = evict_own(asker, n_bytes, kind, newcomer);

        /* If these were not enough, the tenant has no more blocks of this kind. */
        if (n_own_bytes >= n_bytes)
                return n_own_bytes;
        return n_own_bytes + evict_any(asker->pool, n_bytes - n_own_bytes, kind, newcomer);
}

uint64_t evict_cached(struct holding *asker, uint64_t n_bytes, enum evict_kind kind)
{
        return evict(asker, n_bytes, kind, NULL);
}

static uint64_t less(uint64_t n_bytes, uint64_t n_gone_bytes)
{
        return n_bytes > n_gone_bytes ? n_bytes - n_gone_bytes : 0;
}

void evict_cached_recall(struct pool *pool, const struct client *asker, uint64_t n_missing_bytes,
                         enum evict_amount amount, uint64_t now_ns, struct scan_budget *budget)
{
        struct holding *holding = &asker->tenant->holdings[pool->id];
        struct idle_leases own = {.n = 0}, others = {.n = 0};
        const struct totals *totals = &pool->totals;
        uint64_t n_coming_bytes = totals->mapped_lingering - totals->timed_out;
        uint64_t n_left_bytes = less(n_missing_bytes, totals->evictable + n_coming_bytes);
        uint64_t n_there_bytes = totals->mapped_cached;

        if (!n_left_bytes)
                return;
        revoke_idle_add_own(&own, holding, NULL, budget);
        revoke_idle_drop_kept(&own);
        n_there_bytes += own.n_bytes;
        if (n_there_bytes < n_left_bytes) {
                revoke_idle_add_others(&others, holding, n_left_bytes - n_there_bytes, now_ns,
                                       budget);
                n_there_bytes += others.n_bytes;
        }
        if (n_there_bytes < n_left_bytes && amount == EVICT_ENOUGH)
                return;
        n_left_bytes = less(n_left_bytes, revoke_idle_release(&own, asker, n_left_bytes));
        n_left_bytes = less(n_left_bytes, revoke_idle_release(&own, NULL, n_left_bytes));
        n_left_bytes = less(n_left_bytes, evict_cached(holding, n_left_bytes, EVICT_MAPPED));
        revoke_idle_release_others(&others, n_left_bytes, now_ns, budget);
}

static uint64_t spare_bytes(const struct pool *pool)
{
        uint64_t n_bytes = size_larger(pool->reserved_peak / EVICT_SPARE_PART, EVICT_SPARE_BYTES);

        n_bytes = size_larger(n_bytes, pool->n_cachers * EVICT_SPARE_AN_OWNER);
        return size_larger(n_bytes, pool->keep_bytes);
}

static bool is_full(const struct idle_leases *idle)
{
        return idle->n == REVOKE_IDLE_SCANS_A_REQUEST;
}

/* Idle leases of the tenant, and as many of other tenants as are needed to find n_bytes unused. Where the tenant has
 * more than fit, those are taken first. */
static uint64_t find_unused(struct holding *holding, uint64_t n_bytes, uint64_t now_ns,
                            struct scan_budget *budget, struct idle_leases *own,
                            struct idle_leases *others)
{
        const struct totals *totals = &holding->pool->totals;
        uint64_t n_found_bytes = totals->evictable + totals->mapped_cached;

        revoke_idle_add_own(own, holding, NULL, budget);
        n_found_bytes += own->n_bytes;
        if (n_found_bytes < n_bytes && !is_full(own))
                revoke_idle_add_others(others, holding, n_bytes - n_found_bytes, now_ns, budget);
        return n_found_bytes + others->n_bytes;
}

/* Leases that others are freeing now may be marked idle before the next block is created. */
static void ask_others(const struct pool *pool, const struct client *asker, uint64_t now_ns)
{
        struct ranked *ranked = ranking_first(&pool->by_charge);

        for (unsigned i = 0; ranked && i < EVICT_MARKS_A_BLOCK; i++) {
                struct client *client = charge_sum_of(ranked, CHARGE_OF_POOL)->client;

                if (client != asker)
                        client_ask_to_mark(client, now_ns);
                ranked = ranking_next(&pool->by_charge, ranked);
        }
}

/* Releases up to *n_new_bytes, and takes them off. Returns whether there may be more. */
static bool trim(struct holding *holding, const struct client *asker, uint64_t *n_new_bytes,
                 uint64_t *n_sure_bytes, uint64_t now_ns, struct scan_budget *budget)
{
        struct idle_leases own = {.n = 0}, others = {.n = 0};
        struct newcomer newcomer = {.client = asker};
        uint64_t n_spare_bytes = spare_bytes(holding->pool), n_before_bytes, n_left_bytes;
        uint64_t n_unmapped_bytes;

        n_left_bytes = less(
                find_unused(holding, n_spare_bytes + *n_new_bytes, now_ns, budget, &own, &others),
                n_spare_bytes);
        if (n_left_bytes > *n_new_bytes)
                n_left_bytes = *n_new_bytes;
        n_before_bytes = n_left_bytes;
        n_left_bytes = less(n_left_bytes, revoke_idle_release(&own, asker, n_left_bytes));
        n_unmapped_bytes = evict_cached(holding, n_left_bytes, EVICT_UNMAPPED);
        n_left_bytes = less(n_left_bytes, n_unmapped_bytes);
        n_left_bytes = less(n_left_bytes, revoke_idle_release(&own, NULL, n_left_bytes));
        usage_add(&newcomer.usage, holding->pool->settings.kind, *n_new_bytes);
        n_left_bytes = less(n_left_bytes, evict(holding, n_left_bytes, EVICT_MAPPED, &newcomer));
        revoke_idle_release_others(&others, n_left_bytes, now_ns, budget);
        *n_sure_bytes += n_unmapped_bytes;
        *n_new_bytes -= n_before_bytes - n_left_bytes;
        return n_left_bytes < n_before_bytes && (is_full(&own) || !budget->n_left);
}

/* The same, with a part of the scans. */
static bool trim_some(struct holding *holding, const struct client *asker, uint64_t *n_new_bytes,
                      uint64_t *n_sure_bytes, uint64_t now_ns, struct scan_budget *budget)
{
        unsigned n_scans = budget->n_left < EVICT_SCANS_A_PART ? budget->n_left
                                                               : EVICT_SCANS_A_PART;
        struct scan_budget part = *budget;
        bool has_more;

        part.n_left = n_scans;
        has_more = trim(holding, asker, n_new_bytes, n_sure_bytes, now_ns, &part);
        budget->n_left -= n_scans - part.n_left;
        part_count_looks(holding->tenant->policy, n_scans - part.n_left);
        return has_more && *n_new_bytes && budget->n_left && holding->tenant->policy->n_looks_left;
}

uint64_t evict_cached_surplus(struct pool *pool, const struct client *asker, uint64_t *n_new_bytes,
                              uint64_t now_ns, struct scan_budget *budget)
{
        struct holding *holding = &asker->tenant->holdings[pool->id];
        uint64_t n_all_bytes = *n_new_bytes, n_sure_bytes = 0;

        if (pool->settings.kind != POLICY_DEVICE)
                return 0;
        while (trim_some(holding, asker, n_new_bytes, &n_sure_bytes, now_ns, budget))
                continue;
        if (totals_reserved(&pool->totals) + n_all_bytes > pool->reserved_peak)
                ask_others(pool, asker, now_ns);
        return n_sure_bytes;
}

/* Those that are not idle move to the end of the list, so that the next part begins with others. */
static void revoke_excess(struct pool *pool)
{
        struct block *block;

        while ((block = TAILQ_FIRST(&pool->leased)) && pool->n_to_revoke && pool_excess(pool) &&
               pool->policy->n_looks_left) {
                pool->n_to_revoke--;
                part_count_looks(pool->policy, 1);
                if (lease_revoke(TAILQ_FIRST(&block->leases))) {
                        part_count_release(pool->policy);
                        block_release(block);
                        continue;
                }
                TAILQ_REMOVE(&pool->leased, block, pool_age_link);
                TAILQ_INSERT_TAIL(&pool->leased, block, pool_age_link);
        }
}

/* As with a new walk, the places of earlier searches do not count. */
static void begin_kinds(struct pool *pool)
{
        pool->policy->n_walks++;
        pool->limit_kind = EVICT_UNMAPPED;
}

/* Kinds are searched for once each, until all begin again: what clients unmap meanwhile does not make an earlier search
 * begin once more. */
static void evict_kinds(struct pool *pool)
{
        for (;;) {
                (void)evict_any(pool, pool_excess(pool), pool->limit_kind, NULL);
                if (!pool->policy->n_looks_left)
                        return;
                if (pool->limit_kind == EVICT_KEPT) {
                        begin_kinds(pool);
                        return;
                }
                pool->limit_kind++;
        }
}

void evict_cached_begin_to_limit(struct pool *pool)
{
        begin_kinds(pool);
        pool->evicts_to_limit = true;
        pool->n_to_revoke = pool->n_leases;
}

bool evict_cached_to_limit(struct pool *pool)
{
        if (!pool->evicts_to_limit)
                return false;
        evict_kinds(pool);
        if (TAILQ_EMPTY(&pool->cached))
                revoke_excess(pool);
        pool->evicts_to_limit = pool_excess(pool) &&
                                (!TAILQ_EMPTY(&pool->cached) ||
                                 (pool->n_to_revoke && !TAILQ_EMPTY(&pool->leased)));
        return pool->evicts_to_limit;
}
