/* SPDX-License-Identifier: Apache-2.0 */
/* The part of policy_check() for tokens. */
#include <assert.h>

#include "daemon/policy/check/check.h"
#include "daemon/policy/objects/share.h"

/* Counts the busy leases of one party on a block. */
struct count {
        uint32_t for_client, for_tenant;
};

static struct count count_leases(const struct block *block, const struct client *client)
{
        struct count count = {0};
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                assert(lease->state == LEASE_BUSY ||
                       (!lease->counts_for_client && !lease->counts_for_tenant));
                count.for_client += lease->client == client && lease->counts_for_client;
                count.for_tenant += lease->client->tenant == client->tenant &&
                                    lease->counts_for_tenant;
        }
        return count;
}

static void check_shared_usage(const struct block *block)
{
        const struct client *charged = block->charge.client;
        const struct lease *lease;
        uint32_t n_leases = 0, n_keeping = 0;
        bool is_before_eldest = !block->eldest;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                struct count count = count_leases(block, lease->client);

                n_leases++;
                n_keeping += lease->keeps_mapped;
                assert(!is_before_eldest || lease->state != LEASE_BUSY);
                is_before_eldest |= lease == block->eldest;
                if (lease->state != LEASE_BUSY)
                        continue;
                assert(count.for_client == (lease->client != charged));
                assert(count.for_tenant == (lease->client->tenant != charged->tenant));
        }
        assert(n_leases == block->n_leases && n_keeping == block->n_keeping);
        assert(is_before_eldest);
}

/* A keep has begun exactly if the sharer's lease has ended. */
static void check_keep(const struct share *share)
{
        const struct policy *policy = share->block->pool->policy;
        const struct lease *lease;
        bool is_shared = false;

        if (!share->keeper)
                return;
        TAILQ_FOREACH (lease, &share->block->leases, block_link)
                is_shared = is_shared || (lease->state == LEASE_BUSY && !lease->attached);
        assert(share->keeper->client == share->block->holding->tenant->keeper);
        assert(share->keeper->state == (is_shared ? LEASE_ASKED : LEASE_BUSY));
        assert(is_shared || policy->keeps.places[share->keep_place] == share);
        assert(is_shared || share->keeper->block == share->block);
}

void check_shares_of(const struct block *block)
{
        const struct policy *policy = block->pool->policy;
        const struct share *share;
        uint32_t n = 0;

        LIST_FOREACH (share, &block->shares, block_link) {
                assert(share->block == block);
                assert(share->n_bytes > 0 && share->n_bytes <= block->bin->n_bytes);
                assert(share_find(policy, &share->token) == share);
                check_keep(share);
                n++;
        }
        assert(n == block->n_shares && n <= SHARES_PER_BLOCK_MAX);
        check_shared_usage(block);
        assert(n == 0 ||
               (block->state == BLOCK_LEASED && block->bin->properties & POLICY_SHAREABLE));
}

static void check_order_of_keeps(const struct keeps *keeps)
{
        assert(keeps->n <= keeps->n_all && keeps->n_all <= keeps->n_places);
        for (uint32_t i = 0; i < keeps->n; i++) {
                assert(keeps->places[i]->keep_place == i);
                assert(keeps->places[i]->keep_end_ns >=
                       keeps->places[i ? (i - 1) / 2 : 0]->keep_end_ns);
        }
}

void check_shares(const struct policy *policy)
{
        const struct block *block;
        uint64_t n = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link)
                        n += block->n_shares;
        }
        assert(n == HASH_COUNT(policy->shares));
        check_order_of_keeps(&policy->keeps);
}
