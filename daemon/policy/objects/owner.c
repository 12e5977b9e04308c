/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/owner.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* FNV-1a. Of two owners with one digest each goes on with the other's round, which does no harm. */
static uint64_t digest(const struct tenant_key *key)
{
        const unsigned char *bytes = (const unsigned char *)key;
        uint64_t value = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < sizeof(*key); i++)
                value = (value ^ bytes[i]) * UINT64_C(0x100000001b3);
        return value;
}

/* One that leaves and comes again holds up others no longer than one that stays. */
static void find_past_hold(struct owner *owner, const struct pool *pool)
{
        struct backfill_hold *hold = &owner->owned[pool->id].hold;
        uint64_t number = digest(&owner->key);

        for (unsigned i = 0; i < PAST_HOLDS; i++) {
                const struct past_hold *past = &pool->past_holds[i];

                if (past->since_ns && past->owner == number && past->since_ns >= hold->since_ns)
                        *hold = (struct backfill_hold){.was = true, .since_ns = past->since_ns};
        }
}

/* A walk may be under way that knows it. */
static void end_hold(struct owner *owner, struct pool *pool)
{
        struct backfill_hold *hold = &owner->owned[pool->id].hold;

        if (hold->listed && hold->listed == pool->queue.walk.number)
                LIST_REMOVE(hold, link);
        if (hold->was && owner->policy->now_ns < hold->since_ns + BACKFILL_ROUND_NS)
                pool->past_holds[pool->n_past_holds++ % PAST_HOLDS] = (struct past_hold){

                        .owner = digest(&owner->key), .since_ns = hold->since_ns};
}

static int owner_new(struct policy *policy, const struct tenant_key *key, struct owner **ret_owner)
{
        struct owner *owner;

        owner = calloc(1, sizeof(*owner) + policy->n_pools * sizeof(owner->owned[0]));
        if (!owner)
                return -ENOMEM;
        owner->policy = policy;
        owner->key = *key;
        TAILQ_INIT(&owner->tenants);
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                        ranking_init(&owner->owned[i].by_cached[kind]);
                find_past_hold(owner, policy->pools[i]);
        }
        HASH_ADD(hh, policy->owners, key, sizeof(owner->key), owner);
        if (!owner->hh.tbl) {
                free(owner);
                return -ENOMEM;
        }
        *ret_owner = owner;
        return 0;
}

int owner_get(struct policy *policy, const struct tenant_key *key, struct owner **ret_owner)
{
        struct owner *owner;

        HASH_FIND(hh, policy->owners, key, sizeof(*key), owner);
        if (!owner)
                return owner_new(policy, key, ret_owner);
        *ret_owner = owner;
        return 0;
}

void owner_end(struct owner *owner)
{
        if (owner->n_tenants)
                return;
        assert(!owner->n_waiting && !owner->n_first && !owner->n_making);
        for (uint32_t i = 0; i < owner->policy->n_pools; i++)
                end_hold(owner, owner->policy->pools[i]);
        HASH_DEL(owner->policy->owners, owner);
        free(owner);
}

void owner_add(struct owner *owner, struct tenant *tenant)
{
        tenant->owner = owner;
        TAILQ_INSERT_TAIL(&owner->tenants, tenant, owner_link);
        owner->n_tenants++;
}

void owner_remove(struct tenant *tenant)
{
        struct owner *owner = tenant->owner;

        TAILQ_REMOVE(&owner->tenants, tenant, owner_link);
        owner->n_tenants--;
        owner_end(owner);
}

/* A search for a kind steps through those that have some of it, and through no others. */
static void rank_cached(struct holding *holding, struct owned *owned, enum evict_kind kind)
{
        bool has_some = totals_cached_of(&holding->totals, kind) > 0;

        ranking_set(&owned->by_cached[kind], &holding->cached_sums[kind],
                    has_some ? holding->totals.cached : 0);
        ranking_set(&holding->pool->by_cached[kind], &owned->cached_sums[kind],
                    owned->by_cached[kind].n_sums ? owned->cached : 0);
}

static void count_cached(struct holding *holding, struct owned *owned, uint64_t n_more_bytes)
{
        holding->pool->n_cachers -= owned->cached > 0;
        owned->cached += n_more_bytes;
        holding->pool->n_cachers += owned->cached > 0;
        for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                rank_cached(holding, owned, kind);
}

void owner_count(struct holding *holding, const struct totals *before, const struct totals *after)
{
        struct tenant *tenant = holding->tenant;
        struct owned *owned = &tenant->owner->owned[holding->pool->id];

        tenant->owner->n_with_blocks -= tenant->n_open > 0;
        tenant->n_open += after->n_open - before->n_open;
        tenant->owner->n_with_blocks += tenant->n_open > 0;
        owned->n_open += after->n_open - before->n_open;
        owned->n_closing += after->n_closing - before->n_closing;
        count_cached(holding, owned, after->cached - before->cached);
}
