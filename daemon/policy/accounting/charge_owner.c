/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge_owner.h"

#include "daemon/policy/accounting/charge.h"

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
