/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/slot_set.h"
#include "gpumem.h"

static int set_up(struct client *client, const struct tenant_key *key,
                  const struct tenant_key *owner_key, uint32_t n_slots)
{
        int r = slot_set_init(&client->slots, n_slots);

        if (r)
                return r;
        client->declared = calloc(client->policy->n_pools, sizeof(*client->declared));
        r = client->declared || !client->policy->n_pools ? 0 : -ENOMEM;
        if (!r)
                r = tenant_get(client->policy, key, owner_key, &client->tenant);
        if (r) {
                free(client->declared);
                slot_set_deinit(&client->slots);
        }
        return r;
}

int client_new(struct policy *policy, const struct tenant_key *key,
               const struct tenant_key *owner_key, uint32_t n_slots, void *owner,
               struct client **ret_client)
{
        struct client *client;
        int r;

        if (!n_slots)
                return -EINVAL;
        client = calloc(1, sizeof(*client) + policy->n_pools * sizeof(client->sums[0]));
        if (!client)
                return -ENOMEM;
        for (uint32_t i = 0; i < policy->n_pools; i++)
                client->sums[i].client = client;
        client->policy = policy;
        client->number = ++policy->last_client_number;
        client->owner = owner;
        TAILQ_INIT(&client->leases);
        LIST_INIT(&client->returned);
        TAILQ_INIT(&client->requests);
        LIST_INIT(&client->release_alls);
        r = set_up(client, key, owner_key, n_slots);
        if (r) {
                free(client);
                return r;
        }
        LIST_INSERT_HEAD(&policy->clients, client, link);
        policy->n_changes++;
        *ret_client = client;
        return 0;
}

struct client *client_free(struct client *client)
{
        if (!client)
                return NULL;
        while (!LIST_EMPTY(&client->returned))
                lease_free(LIST_FIRST(&client->returned));
        assert(TAILQ_EMPTY(&client->leases) && TAILQ_EMPTY(&client->requests));
        for (uint32_t i = 0; i < client->policy->n_pools; i++)
                (void)client_declare(client, client->policy->pools[i], 0);
        free(client->declared);
        free(client->places);
        LIST_REMOVE(client, link);
        client->policy->n_changes++;
        slot_set_deinit(&client->slots);
        tenant_unref(client->tenant);
        free(client);
        return NULL;
}

int client_declare(struct client *client, struct pool *pool, uint64_t n_bytes)
{
        struct charge *charge = &client->declared[pool->id];
        uint64_t n_left_bytes = client->n_held_bytes;

        for (uint32_t i = 0; i < client->policy->n_pools; i++)
                n_left_bytes -= i == pool->id ? 0 : client->declared[i].n_bytes;
        if (n_bytes > n_left_bytes || n_bytes > pool->settings.capacity_bytes)
                return GPUMEM_E_BAD_REQUEST;
        if (n_bytes > charge->n_bytes && !charge_fits(client, pool, n_bytes - charge->n_bytes))
                return GPUMEM_E_TOO_MANY;
        pool->declared += n_bytes - charge->n_bytes;
        client->tenant->holdings[pool->id].declared += n_bytes - charge->n_bytes;
        charge_deinit(charge);
        if (n_bytes)
                charge_init(charge, client, pool, n_bytes, CHARGE_HELD);
        return 0;
}

void client_ask_to_mark(struct client *client, uint64_t now_ns)
{
        bool is_too_soon = client->marked_ns && now_ns < client->marked_ns + CLIENT_MARK_NS;

        if (!client->words || client->is_ending || is_too_soon || action_is_queued(&client->mark))
                return;
        client->marked_ns = now_ns;
        action_push(&client->policy->actions, &client->mark, ACTION_MARK);
}

void client_refuse_spare(struct client *client, const struct policy_ask *ask, int outcome)
{
        client->spare.client = client;
        client->spare.pool = ask->pool;
        client->spare.serial = ask->serial;
        client->spare.outcome = outcome;
        client->spare.n_bytes = ask->n_bytes;
        action_push(&client->policy->actions, &client->spare.action, ACTION_REFUSE);
}
