/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the action nodes inside the objects to actions for the server. */
#include "base/err.h"
#include "daemon/policy/objects/release_all.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/report/stats.h"
#include "daemon/policy/state/action_queue.h"

static struct action of_block(enum action_kind kind, struct action_node *node)
{
        struct block *block = CONTAINER_OF(node, struct block, action);
        struct action action = {
                .kind = kind, .pool = block_pool(block), .block = block, .line = block->line};

        if (block->request) {
                action.client = block->request->client;
                action.serial = block->request->refusal.serial;
        }
        return action;
}

/* The mapping may have ended since the block was chosen. */
static bool is_known(const struct lease *granted)
{
        const struct lease *lease;

        if (!granted->known_will_do)
                return false;
        TAILQ_FOREACH (lease, &granted->block->leases, block_link) {
                if (lease->state == LEASE_RETURNED && lease->client == granted->client)
                        return true;
        }
        return false;
}

static struct action of_lease(struct action_node *node)
{
        struct lease *lease = CONTAINER_OF(node, struct lease, action);
        bool known = is_known(lease);

        lease->block->pool->n_known_grants += known;
        return (struct action){
                .kind = ACTION_GRANT,
                .client = lease->client,
                .pool = block_pool(lease->block),
                .serial = lease->serial,
                .block = lease->block,
                .lease = lease,
                .known = known,
        };
}

static struct action of_notice(struct action_node *node)
{
        struct lease *lease = CONTAINER_OF(node, struct lease, action);

        return (struct action){
                .kind = ACTION_NOTICE,
                .client = lease->client,
                .pool = block_pool(lease->block),
                .block = lease->block,
                .lease = lease,
        };
}

static struct action of_client(struct action_node *node)
{
        return (struct action){
                .kind = ACTION_MARK,
                .client = CONTAINER_OF(node, struct client, mark),
        };
}

static struct action of_pressure(struct action_node *node)
{
        struct charge_sum *sum = CONTAINER_OF(node, struct charge_sum, pressure);

        return (struct action){
                .kind = ACTION_PRESSURE,
                .client = sum->client,
                .pool = (uint32_t)(sum - sum->client->sums),
        };
}

static struct action of_refusal(struct action_node *node)
{
        struct refusal *refusal = CONTAINER_OF(node, struct refusal, action);
        struct action action = {
                .kind = ACTION_REFUSE,
                .client = refusal->client,
                .pool = refusal->pool,
                .serial = refusal->serial,
                .only_known = refusal->request && refusal->request->only_known,
                .only_cached = refusal->request && refusal->request->only_cached,
                .outcome = refusal->outcome,
                .n_bytes = refusal->n_bytes,
                .limit = refusal->hit,
                .of_blocks = refusal->of_blocks,
                .of_deadlock = refusal->of_deadlock,
                .of_part = refusal->of_part,
        };

        request_free(refusal->request);
        return action;
}

static struct action of_release_all(struct action_node *node)
{
        struct release_all *release_all = CONTAINER_OF(node, struct release_all, action);
        struct action action = {
                .kind = ACTION_FREED,
                .client = release_all->client,
                .pool = release_all->pool,
                .serial = release_all->serial,
                .n_bytes = release_all->n_bytes,
                .n_blocks = release_all->n_blocks,
                .of_others = release_all->of_others,
        };

        release_all_free(release_all);
        return action;
}

/* A client that ends leaves its calls in parts: meanwhile none is answered. */
static bool is_in_vain(struct action_node *node)
{
        return node && node->kind == ACTION_FREED &&
               CONTAINER_OF(node, struct release_all, action)->client->is_ending;
}

static struct action_node *take(struct policy *policy)
{
        struct action_node *node = action_take(&policy->actions);

        while (is_in_vain(node))
                node = action_take(&policy->actions);
        return node;
}

bool policy_has_action(const struct policy *policy)
{
        return !TAILQ_EMPTY(&policy->actions.nodes);
}

struct action policy_next_action(struct policy *policy)
{
        struct action_node *node = take(policy);

        switch (node ? node->kind : ACTION_NONE) {
        case ACTION_CREATE:
        case ACTION_RELEASE:
                return of_block(node->kind, node);
        case ACTION_GRANT:
                return of_lease(node);
        case ACTION_REFUSE:
                return of_refusal(node);
        case ACTION_FREED:
                return of_release_all(node);
        case ACTION_NOTICE:
                return of_notice(node);
        case ACTION_MARK:
                return of_client(node);
        case ACTION_PRESSURE:
                return of_pressure(node);
        case ACTION_NONE:
                break;
        }
        return (struct action){.kind = ACTION_NONE};
}
