#include "daemon/policy/accounting/payer.h"

#include "daemon/policy/accounting/charge.h"

static bool pays_in_cache(const struct lease *lease)
{
        return lease->keeps_mapped || (lease->state == LEASE_RETURNED && !lease->revoked);
}

struct client *payer_in_cache(const struct block *block)
{
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (pays_in_cache(lease))
                        return lease->client;
        }
        return NULL;
}

void payer_set(struct block *block, struct client *client, enum charge_kind kind)
{
        if (block->charge.client == client && block->charge.kind == kind)
                return;
        charge_deinit(&block->charge);
        if (client)
                charge_init(&block->charge, client, block_its_pool(block), block->bin->n_bytes,
                            kind);
}

void payer_find(struct block *block)
{
        const struct lease *last = TAILQ_FIRST(&block->leases);

        if (block->state == BLOCK_CACHED)
                payer_set(block, payer_in_cache(block), CHARGE_KEPT);
        else
                payer_set(block, last ? last->client : NULL, CHARGE_HELD);
}
