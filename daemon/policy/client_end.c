/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/client_end.h"

#include "daemon/policy/kept_shares.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/release_all.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/walk_part.h"

/* A client that ends may still write to a block that it uses, so no other client may get it. A block that
 * it did not use, or was not told of, can be cached. */
static void drop_lease(struct lease *lease)
{
        struct block *block = lease->block;

        if (lease->state != LEASE_BUSY) {
                action_withdraw(&lease->action);
                if (block)
                        unmap_timeout_update_holder(block);
                return;
        }
        if (lease_revoke(lease)) {
                block_return_to_cache(block);
                return;
        }
        lease_end_use(lease);
        lease->left_in_use = true;
        if (action_is_queued(&lease->action)) {
                block->n_grants--; /* of which the client was never told */
                lease_free(lease);
                block_return_to_cache(block);
        } else if (block->n_busy) {
                block_transfer_charge(block);
        } else {
                block_release(block);
        }
}

static void begin_drop(struct client *client)
{
        if (client->is_ending)
                return;
        client->is_ending = true;
        while (!TAILQ_EMPTY(&client->requests))
                request_free(TAILQ_FIRST(&client->requests));
        action_withdraw(&client->spare.action);
        action_withdraw(&client->mark);
        for (uint32_t i = 0; i < client->policy->n_pools; i++)
                action_withdraw(&client->sums[i].pressure);
        client->next_to_drop = TAILQ_FIRST(&client->leases);
}

/* So many leases that are looked at take as long as one that is dropped. */
#define LOOKS_A_DROP 16

static unsigned drop_cost(const struct client *client, const struct lease *lease)
{
        const struct block *block = lease->block;
        bool is_walked = block && lease->state == LEASE_BUSY &&
                         (block->charge.client == client || lease->counts_for_client ||
                          lease->counts_for_tenant);
        bool begins_keeps = block && lease->state == LEASE_BUSY && !lease->attached;

        return (is_walked ? 1 + block->n_leases / LOOKS_A_DROP : 1) +
               (begins_keeps ? block->n_shares : 0);
}

static bool is_going(const struct block *block)
{
        return block && block->state == BLOCK_RELEASING;
}

/* Returns the items that it was. */
static unsigned drop_next(struct client *client)
{
        struct lease *lease = client->next_to_drop;
        const struct block *block = lease->block;
        unsigned cost = drop_cost(client, lease);
        bool was_going = is_going(block);

        keep_begin(lease);
        client->next_to_drop = TAILQ_NEXT(lease, client_link);
        drop_lease(lease);
        return was_going || !is_going(block) ? cost : cost + PART_RELEASE_ITEMS;
}

/* A call may wait for all blocks that there are. Returns how many items are left. */
static unsigned drop_release_alls(struct client *client, unsigned n_most)
{
        while (n_most && !LIST_EMPTY(&client->release_alls)) {
                n_most--;
                release_all_drop_one(LIST_FIRST(&client->release_alls));
        }
        return n_most;
}

bool client_end_drop(struct client *client, unsigned n_most)
{
        begin_drop(client);
        n_most = drop_release_alls(client, n_most);
        while (n_most && client->next_to_drop) {
                unsigned cost = drop_next(client);

                n_most -= cost < n_most ? cost : n_most;
        }
        return client->next_to_drop || !LIST_EMPTY(&client->release_alls);
}

bool client_end_unmap(struct client *client, unsigned n_most)
{
        while (n_most-- && !LIST_EMPTY(&client->returned))
                (void)lease_free(LIST_FIRST(&client->returned));
        return !LIST_EMPTY(&client->returned);
}
