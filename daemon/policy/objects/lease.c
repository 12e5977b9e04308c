/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/lease.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/accounting/shared_usage.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/slot_set.h"
#include "proto/board.h"

#define LEASE_ID_MAX ((UINT64_C(1) << 56) - 1)

#define PLACES_MIN 16

static const unsigned legal_next[LEASE_N_STATES] = {
        [LEASE_ASKED] = BIT(LEASE_BUSY),
        [LEASE_BUSY] = BIT(LEASE_RETURNED),
        [LEASE_RETURNED] = 0,
};

static void set_state(struct lease *lease, enum lease_state state)
{
        assert(legal_next[lease->state] & BIT(state));
        lease->state = state;
}

/* Replaces the slot's word, which was about an earlier lease. */
static void set_word(const struct lease *lease, uint64_t word)
{
        if (lease->client->words)
                atomic_store_explicit(&lease->client->words[lease->slot], word,
                                      memory_order_release);
}

/* Ids are given in order to all clients in turn: the product's upper bits spread those of one client. */
static struct lease **place_of(const struct client *client, uint64_t id)
{
        uint32_t upper = (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);

        return &client->places[(uint64_t)upper * client->n_places >> 32];
}

static void enter(struct lease *lease)
{
        struct lease **place = place_of(lease->client, lease->id);

        lease->next_in_place = *place;
        *place = lease;
}

static void leave(struct lease *lease)
{
        struct lease **place = place_of(lease->client, lease->id);

        while (*place != lease)
                place = &(*place)->next_in_place;
        *place = lease->next_in_place;
}

/* As many places as leases, or twice as many; where memory is short the lists grow. The places stay until the client's
 * end: many clients have one lease at a time. */
static int make_places(struct client *client)
{
        unsigned n = client->n_places ? 2 * client->n_places : PLACES_MIN;
        struct lease **places, *lease;

        if (client->slots.n_taken < client->n_places)
                return 0;
        places = calloc(n, sizeof(struct lease *));
        if (!places)
                return client->places ? 0 : -ENOMEM;
        free(client->places);
        client->places = places;
        client->n_places = n;
        TAILQ_FOREACH (lease, &client->leases, client_link)
                enter(lease);
        return 0;
}

int lease_new(struct client *client, uint32_t serial, struct lease **ret_lease)
{
        struct lease *lease;
        int r = make_places(client);

        if (r)
                return r;
        lease = malloc(sizeof(*lease));
        if (!lease)
                return -ENOMEM;
        *lease = (struct lease){.client = client, .serial = serial};
        r = slot_set_take(&client->slots, &lease->slot);
        if (r) {
                free(lease);
                return r;
        }
        assert(client->policy->last_lease_id < LEASE_ID_MAX);
        lease->id = ++client->policy->last_lease_id;
        TAILQ_INSERT_TAIL(&client->leases, lease, client_link);
        enter(lease);
        *ret_lease = lease;
        return 0;
}

struct lease *lease_free(struct lease *lease)
{
        if (!lease)
                return NULL;
        assert(lease->state != LEASE_BUSY);
        action_withdraw(&lease->action);
        if (lease->state == LEASE_RETURNED)
                LIST_REMOVE(lease, returned_link);
        if (lease->block)
                block_unmapped(lease->block, lease);
        set_word(lease, 0);
        slot_set_give_back(&lease->client->slots, lease->slot);
        if (lease->client->next_to_drop == lease)
                lease->client->next_to_drop = TAILQ_NEXT(lease, client_link);
        TAILQ_REMOVE(&lease->client->leases, lease, client_link);
        leave(lease);
        free(lease);
        return NULL;
}

static bool is_told(const struct lease *lease)
{
        return lease->state != LEASE_ASKED &&
               !(action_is_queued(&lease->action) && lease->action.kind == ACTION_GRANT);
}

struct lease *lease_find(struct client *client, uint64_t id)
{
        struct lease *lease = client->places ? *place_of(client, id) : NULL;

        while (lease && lease->id != id)
                lease = lease->next_in_place;
        return lease && is_told(lease) ? lease : NULL;
}

static void begin_use(struct lease *lease, struct block *block)
{
        set_state(lease, LEASE_BUSY);
        set_word(lease, board_word(lease->id, BOARD_BUSY));
        lease->block = block;
        block->n_busy++;
        block->pool->n_leases++;
}

void lease_attach(struct lease *lease, struct block *block)
{
        lease->attached = true;
        begin_use(lease, block);
        block_attach(block, lease);
}

void lease_grant(struct lease *lease, struct block *block)
{
        begin_use(lease, block);
        block_lease(block, lease);
        action_push(&lease->client->policy->actions, &lease->action, ACTION_GRANT);
}

void lease_end_use(struct lease *lease)
{
        if (shared_usage_forget(lease))
                lease->block->is_uncounted = true;
        block_count_attached(lease->block, lease, -1);
        block_end_use(lease->block);
        set_state(lease, LEASE_RETURNED);
        LIST_INSERT_HEAD(&lease->client->returned, lease, returned_link);
}

static bool may_be_idle(const struct lease *lease)
{
        return lease->state == LEASE_BUSY && is_told(lease) && block_may_be_idle(lease->block);
}

bool lease_is_idle(const struct lease *lease)
{
        return may_be_idle(lease) && block_is_said_idle(lease->block);
}

static void tell(const struct lease *lease)
{
        const struct policy_witness *witness = &lease->client->policy->witness;

        if (witness->revoked)
                witness->revoked(witness->argument, lease->client, lease->block->pool->id,
                                 lease->block->bin->n_bytes);
}

bool lease_revoke(struct lease *lease)
{
        if (!lease_is_idle(lease) ||
            !board_step(&lease->client->words[lease->slot], lease->id, BOARD_IDLE, BOARD_REVOKED))
                return false;
        lease_end_use(lease);
        lease->revoked = true;
        lease->block->n_to_recall++;
        lease->client->policy->n_revocations++;
        lease->block->pool->n_revocations++;
        tell(lease);
        return true;
}

void lease_recall(struct lease *lease)
{
        const struct client *client = lease->client;

        if (!lease->revoked || lease->recalled || client->is_ending)
                return;
        lease->recalled = true;
        lease->block->n_to_recall--;
        lease->block->pool->n_notices++;
        action_push(&client->policy->actions, &lease->action, ACTION_NOTICE);
}
