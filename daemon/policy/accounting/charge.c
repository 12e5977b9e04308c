/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge.h"

#include "daemon/policy/accounting/quota.h"

/* The client's sum in the pool. */
static void change_sum(struct client *client, struct pool *pool, uint64_t n_bytes)
{
        struct ranked *ranked = client->sums[pool->id].ranked;

        ranking_set(&pool->by_charge, &ranked[CHARGE_OF_POOL], n_bytes);
        ranking_set(&client->tenant->holdings[pool->id].by_charge, &ranked[CHARGE_OF_TENANT],
                    n_bytes);
}

bool charge_fits(const struct client *client, const struct pool *pool, uint64_t n_bytes)
{
        uint64_t n_sum_bytes = usage_bytes(&client->tenant->usage, pool->settings.kind);

        return n_bytes <= CHARGES_MAX && pool->charged <= CHARGES_MAX - n_bytes &&
               n_sum_bytes <= CHARGES_MAX - n_bytes;
}

void charge_init(struct charge *charge, struct client *client, struct pool *pool, uint64_t n_bytes,
                 enum charge_kind kind)
{
        *charge = (struct charge){.client = client, .pool = pool, .n_bytes = n_bytes, .kind = kind};
        change_sum(client, pool, charge_sum_bytes(&client->sums[pool->id]) + n_bytes);
        client->tenant->holdings[pool->id].charged += n_bytes;
        pool->charged += n_bytes;
        usage_add(&client->usage, pool->settings.kind, n_bytes);
        usage_add(&client->tenant->usage, pool->settings.kind, n_bytes);
        if (kind == CHARGE_KEPT) {
                usage_add(&client->kept, pool->settings.kind, n_bytes);
                usage_add(&client->tenant->kept, pool->settings.kind, n_bytes);
        }
        client->policy->n_charges++;
}

void charge_deinit(struct charge *charge)
{
        struct client *client = charge->client;
        struct pool *pool = charge->pool;

        if (!client)
                return;
        change_sum(client, pool, charge_sum_bytes(&client->sums[pool->id]) - charge->n_bytes);
        client->tenant->holdings[pool->id].charged -= charge->n_bytes;
        pool->charged -= charge->n_bytes;
        usage_remove(&client->usage, pool->settings.kind, charge->n_bytes);
        usage_remove(&client->tenant->usage, pool->settings.kind, charge->n_bytes);
        if (charge->kind == CHARGE_KEPT) {
                usage_remove(&client->kept, pool->settings.kind, charge->n_bytes);
                usage_remove(&client->tenant->kept, pool->settings.kind, charge->n_bytes);
        }
        client->policy->n_charges++;
        *charge = CHARGE_NULL;
}

static bool is_charged_in_cache(const struct lease *lease)
{
        return lease->keeps_mapped || (lease->state == LEASE_RETURNED && !lease->revoked);
}

struct client *charge_owner_in_cache(const struct block *block)
{
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (is_charged_in_cache(lease))
                        return lease->client;
        }
        return NULL;
}

void charge_owner_set(struct block *block, struct client *client, enum charge_kind kind)
{
        if (block->charge.client == client && block->charge.kind == kind)
                return;
        charge_deinit(&block->charge);
        if (client)
                charge_init(&block->charge, client, block->pool, block->bin->n_bytes, kind);
}

void charge_owner_update(struct block *block)
{
        const struct lease *last = TAILQ_FIRST(&block->leases);

        if (block->state == BLOCK_CACHED)
                charge_owner_set(block, charge_owner_in_cache(block), CHARGE_KEPT);
        else
                charge_owner_set(block, last ? last->client : NULL, CHARGE_HELD);
}
