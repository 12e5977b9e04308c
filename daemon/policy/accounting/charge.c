/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge.h"

#include "daemon/policy/accounting/charge_ranking.h"
#include "daemon/policy/accounting/quota.h"

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
        charge_ranking_add(client, pool, n_bytes);
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
        charge_ranking_sub(client, pool, charge->n_bytes);
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
