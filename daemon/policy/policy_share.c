/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for sharing. */
#include <assert.h>

#include "daemon/policy/accounting/shared_usage.h"
#include "daemon/policy/drain.h"
#include "daemon/policy/kept_shares.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/share.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/scheduling/service.h"
#include "gpumem.h"

static void assert_speaks(const struct policy *policy, const struct client *client)
{
        assert(client->policy == policy && !client->is_ending);
}

int policy_share(struct policy *policy, struct client *client, uint64_t lease_id,
                 const struct policy_share *share)
{
        const struct lease *lease;
        struct block *block;
        int r;

        assert_speaks(policy, client);
        lease = lease_find(client, lease_id);
        if (!lease || lease->state != LEASE_BUSY)
                return GPUMEM_E_NO_LEASE;
        block = lease->block;
        if (!(block->bin->properties & POLICY_SHAREABLE) || lease->attached)
                return GPUMEM_E_NOT_SHAREABLE;
        if (share->n_bytes == 0 || share->n_bytes > block->bin->n_bytes)
                return GPUMEM_E_BAD_REQUEST;
        r = share_new(block, share);
        if (r || !share->keep_ns)
                return r;
        r = keep_new(share_find(policy, &share->token), share->keep_ns);
        if (r)
                share_free(share_find(policy, &share->token));
        return r;
}

int policy_shared_pool(const struct policy *policy, const struct client *client,
                       const struct policy_token *token, uint32_t *ret_pool)
{
        const struct share *share = share_find(policy, token);

        if (!share || !share_is_for(share, client))
                return GPUMEM_E_NO_TOKEN;
        *ret_pool = share->block->pool->id;
        return 0;
}

int policy_attach(struct policy *policy, struct client *client, const struct policy_token *token,
                  struct lease **ret_lease, uint64_t *ret_n_bytes)
{
        struct share *share;
        struct lease *lease;
        struct block *block;
        int r;

        assert_speaks(policy, client);
        share = share_find(policy, token);
        if (!share || !share_is_for(share, client))
                return GPUMEM_E_NO_TOKEN;
        block = share->block;
        if (policy_is_draining(policy))
                return GPUMEM_E_SHUTTING_DOWN;
        if (block->pool->driver_status == DRIVER_LOST)
                return GPUMEM_E_DRIVER;
        if (shared_usage_bars(client, block))
                return GPUMEM_E_LIMIT;
        if (block->n_leases >= LEASES_PER_BLOCK_MAX)
                return GPUMEM_E_TOO_MANY;
        r = lease_new(client, 0, &lease);
        if (r)
                return r;
        lease_attach(lease, block);
        if (client != block->charge.client)
                shared_usage_count(block);
        *ret_lease = lease;
        *ret_n_bytes = share->n_bytes;
        keep_attached(share, client);
        return 0;
}

int policy_unshare(struct policy *policy, struct client *client, const struct policy_token *token,
                   uint64_t now_ns)
{
        struct share *share;
        struct pool *pool;
        bool is_kept;

        assert_speaks(policy, client);
        share = share_find(policy, token);
        if (!share || !share_is_of(share, client))
                return GPUMEM_E_NO_TOKEN;
        pool = share->block->pool;
        is_kept = share->keeper;
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        keep_end(share);
        /* The block may have been freed, with all its tokens. */
        share_free(share_find(policy, token));
        if (is_kept)
                service_serve(pool, now_ns);
        return 0;
}
