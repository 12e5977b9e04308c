/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/kept_shares.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/accounting/shared_usage.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/share.h"

static struct tenant *tenant_of(const struct share *share)
{
        return share->block->holding->tenant;
}

static void leave(struct tenant *tenant)
{
        if (--tenant->n_keeps == 0)
                client_free(steal_ptr(tenant->keeper));
}

#define PLACES_MIN 64

static int make_place(struct keeps *keeps)
{
        uint32_t n = keeps->n_places ? 2 * keeps->n_places : PLACES_MIN;
        struct share **places;

        if (keeps->n_all < keeps->n_places)
                return 0;
        places = realloc(keeps->places, n * sizeof(struct share *));
        if (!places)
                return -ENOMEM;
        keeps->places = places;
        keeps->n_places = n;
        return 0;
}

int keep_new(struct share *share, uint64_t keep_ns)
{
        struct tenant *tenant = tenant_of(share);
        struct keeps *keeps = &tenant->policy->keeps;
        int r = make_place(keeps);

        if (r)
                return r;
        if (!tenant->keeper) {
                r = client_new(tenant->policy, &tenant->key, &tenant->owner->key, KEEPS_A_TENANT,
                               NULL, &tenant->keeper);
                if (r)
                        return r;
        }
        tenant->n_keeps++;
        r = lease_new(tenant->keeper, 0, &share->keeper);
        if (r)
                leave(tenant);
        else
                keeps->n_all++;
        share->keep_ns = keep_ns;
        return r;
}

static bool ends_before(const struct share *share, const struct share *other)
{
        if (share->keep_end_ns == other->keep_end_ns)
                return share->keep_number < other->keep_number;
        return share->keep_end_ns < other->keep_end_ns;
}

static void set_place(struct keeps *keeps, uint32_t place, struct share *share)
{
        keeps->places[place] = share;
        share->keep_place = place;
}

static void rise(struct keeps *keeps, struct share *share)
{
        uint32_t place = share->keep_place;

        while (place && ends_before(share, keeps->places[(place - 1) / 2])) {
                set_place(keeps, place, keeps->places[(place - 1) / 2]);
                place = (place - 1) / 2;
        }
        set_place(keeps, place, share);
}

static void sink(struct keeps *keeps, struct share *share)
{
        uint32_t place = share->keep_place, below;

        while ((below = 2 * place + 1) < keeps->n) {
                if (below + 1 < keeps->n &&
                    ends_before(keeps->places[below + 1], keeps->places[below]))
                        below++;
                if (!ends_before(keeps->places[below], share))
                        break;
                set_place(keeps, place, keeps->places[below]);
                place = below;
        }
        set_place(keeps, place, share);
}

static void enlist(struct keeps *keeps, struct share *share)
{
        share->keep_number = ++keeps->n_begun;
        set_place(keeps, keeps->n++, share);
        rise(keeps, share);
}

static void delist(struct keeps *keeps, struct share *share)
{
        struct share *last = keeps->places[--keeps->n];

        if (last == share)
                return;
        set_place(keeps, share->keep_place, last);
        rise(keeps, last);
        sink(keeps, last);
}

static struct share *first_of(const struct keeps *keeps)
{
        return keeps->n ? keeps->places[0] : NULL;
}

/* The block may have many leases, and is counted once for all its keeps. */
static void begin(struct block *block)
{
        struct policy *policy = block->pool->policy;
        struct share *share;
        bool has_begun = false;

        LIST_FOREACH (share, &block->shares, block_link) {
                if (!share->keeper || share->keeper->state != LEASE_ASKED)
                        continue;
                if (block->pool->closing) {
                        keep_end(share);
                        continue;
                }
                lease_attach(share->keeper, block);
                share->keep_end_ns = policy->now_ns + share->keep_ns;
                enlist(&policy->keeps, share);
                has_begun = true;
        }
        if (has_begun)
                shared_usage_count(block);
}

void keep_begin(const struct lease *lease)
{
        if (lease->state == LEASE_BUSY && !lease->attached)
                begin(lease->block);
}

static void let_go(struct block *block, struct lease *lease)
{
        lease_end_use(lease);
        lease_free(lease);
        if (block->n_busy)
                block_transfer_charge(block);
        else
                block_return_to_cache(block);
}

void keep_end(struct share *share)
{
        struct lease *lease = steal_ptr(share->keeper);
        struct tenant *tenant = tenant_of(share);
        struct block *block = share->block;
        struct keeps *keeps = &block->pool->policy->keeps;

        if (!lease)
                return;
        keeps->n_all--;
        if (lease->state == LEASE_ASKED) {
                lease_free(lease);
        } else {
                delist(keeps, share);
                let_go(block, lease);
        }
        leave(tenant);
}

/* Its lease came first, so it is the last one in the list. */
static bool is_sharer(const struct block *block, const struct client *client)
{
        const struct lease *first = TAILQ_LAST(&block->leases, block_leases);

        return first->client == client && first->state == LEASE_BUSY && !first->attached;
}

void keep_attached(struct share *share, const struct client *client)
{
        if (!is_sharer(share->block, client))
                keep_end(share);
}

unsigned keep_expire(struct policy *policy, unsigned n_most, uint64_t now_ns)
{
        struct share *share;

        for (; n_most && (share = first_of(&policy->keeps)) && share->keep_end_ns <= now_ns;
             n_most--)
                keep_end(share);
        return n_most;
}

void keep_end_all(struct policy *policy)
{
        struct share *share;

        while ((share = first_of(&policy->keeps)))
                keep_end(share);
}

void keep_forget_all(struct policy *policy)
{
        struct share *share, *next;

        keep_end_all(policy);
        HASH_ITER(hh, policy->shares, share, next)
        keep_end(share);
        free(policy->keeps.places);
        policy->keeps = (struct keeps){.n_all = 0};
}

uint64_t keep_next_end(const struct policy *policy)
{
        const struct share *share = first_of(&policy->keeps);

        return share ? share->keep_end_ns : UINT64_MAX;
}
