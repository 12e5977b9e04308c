/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/shared_usage.h"

#include "daemon/policy/accounting/quota.h"

static bool is_shareable(const struct block *block)
{
        return block->bin->properties & POLICY_SHAREABLE;
}

static void set_count(bool *counts, bool now, struct usage *usage, const struct block *block)
{
        enum policy_kind kind = block->pool->settings.kind;

        if (*counts && !now)
                usage_remove(usage, kind, block->bin->n_bytes);
        if (!*counts && now)
                usage_add(usage, kind, block->bin->n_bytes);
        *counts = now;
}

static void set_counts(struct lease *lease, bool for_client, bool for_tenant)
{
        struct client *client = lease->client;

        set_count(&lease->counts_for_client, for_client, &client->shared_usage, lease->block);
        set_count(&lease->counts_for_tenant, for_tenant, &client->tenant->shared_usage,
                  lease->block);
}

bool shared_usage_forget(struct lease *lease)
{
        bool counts = lease->counts_for_client || lease->counts_for_tenant;

        if (counts)
                set_counts(lease, false, false);
        return counts;
}

/* Marks the party for the count of this number. Returns whether it was not marked for it yet. */
static bool mark(uint64_t *party, uint64_t number)
{
        bool is_new = *party != number;

        *party = number;
        return is_new;
}

void shared_usage_count(struct block *block)
{
        uint64_t number = ++block->pool->policy->n_counts;
        struct lease *lease;

        if (!is_shareable(block))
                return;
        (void)mark(&block->charge.client->counted, number);
        (void)mark(&block->charge.client->tenant->counted, number);
        TAILQ_FOREACH (lease, &block->leases, block_link) {
                struct client *client = lease->client;

                if (lease->state == LEASE_BUSY)
                        set_counts(lease, mark(&client->counted, number),
                                   mark(&client->tenant->counted, number));
        }
}

static bool is_barred(const struct client *client, const struct block *block,
                      const struct usage *own, const struct usage *tenants)
{
        const struct pool *pool = block->pool;
        uint64_t n_bytes = block->bin->n_bytes;

        if (client == block->charge.client)
                return false;
        if (quota_bars(client, LIMIT_OF_CLIENT, pool, n_bytes, own))
                return true;
        return client->tenant != block->charge.client->tenant &&
               quota_bars(client, LIMIT_OF_TENANT, pool, n_bytes, tenants);
}

/* A block that the party already leases is not counted twice. Whether it does is asked only where that decides. */
bool shared_usage_bars(const struct client *client, const struct block *block)
{
        const struct pool *pool = block->pool;
        uint64_t n_bytes = block->bin->n_bytes;
        struct usage own = client->shared_usage, tenants = client->tenant->shared_usage;
        const struct lease *lease;

        if (!is_barred(client, block, &own, &tenants))
                return false;
        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->counts_for_client && lease->client == client)
                        usage_remove(&own, pool->settings.kind, n_bytes);
                if (lease->counts_for_tenant && lease->client->tenant == client->tenant)
                        usage_remove(&tenants, pool->settings.kind, n_bytes);
        }
        return is_barred(client, block, &own, &tenants);
}
