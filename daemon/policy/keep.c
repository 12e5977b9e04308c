/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/keep.h"

#include "base/err.h"
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

int keep_new(struct share *share, uint64_t keep_ns)
{
        struct tenant *tenant = tenant_of(share);
        int r;

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
        share->keep_ns = keep_ns;
        return r;
}

/* The list is sorted by the end of the keep. */
static void enlist(struct policy *policy, struct share *share)
{
        struct share *other = TAILQ_LAST(&policy->keeps, policy_keeps);

        while (other && other->keep_end_ns > share->keep_end_ns)
                other = TAILQ_PREV(other, policy_keeps, keep_link);
        if (other)
                TAILQ_INSERT_AFTER(&policy->keeps, other, share, keep_link);
        else
                TAILQ_INSERT_HEAD(&policy->keeps, share, keep_link);
}

static void begin(struct block *block)
{
        struct policy *policy = block->pool->policy;
        struct share *share;

        LIST_FOREACH (share, &block->shares, block_link) {
                if (!share->keeper || share->keeper->state != LEASE_ASKED)
                        continue;
                if (block->pool->closing) {
                        keep_end(share);
                        continue;
                }
                lease_attach(share->keeper, block);
                share->keep_end_ns = policy->now_ns + share->keep_ns;
                enlist(policy, share);
        }
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

        if (!lease)
                return;
        if (lease->state == LEASE_ASKED) {
                lease_free(lease);
        } else {
                TAILQ_REMOVE(&block->pool->policy->keeps, share, keep_link);
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

        for (; n_most && (share = TAILQ_FIRST(&policy->keeps)) && share->keep_end_ns <= now_ns;
             n_most--)
                keep_end(share);
        return n_most;
}

void keep_end_all(struct policy *policy)
{
        struct share *share;

        while ((share = TAILQ_FIRST(&policy->keeps)))
                keep_end(share);
}

void keep_forget_all(struct policy *policy)
{
        struct share *share, *next;

        keep_end_all(policy);
        HASH_ITER(hh, policy->shares, share, next)
        keep_end(share);
}

uint64_t keep_next_end(const struct policy *policy)
{
        const struct share *share = TAILQ_FIRST(&policy->keeps);

        return share ? share->keep_end_ns : UINT64_MAX;
}
