/* Orders as the server sees them, out of the nodes that stand in the objects. */
#include "base/err.h"
#include "daemon/policy/report/figures.h"
#include "daemon/policy/objects/free_all.h"
#include "daemon/policy/state/order_queue.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/objects/request.h"

static struct order of_block(enum order_kind kind, struct order_node *node)
{
        struct block *block = CONTAINER_OF(node, struct block, order);
        struct order order = {.kind = kind, .pool = block_pool(block), .block = block};

        if (block->request) {
                order.client = block->request->client;
                order.serial = block->request->refusal.serial;
        }
        return order;
}

/* What was so when the block was chosen may be over. */
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

static struct order of_lease(struct order_node *node)
{
        struct lease *lease = CONTAINER_OF(node, struct lease, order);
        bool known = is_known(lease);

        block_its_pool(lease->block)->n_known_grants += known;
        return (struct order){
                .kind = ORDER_GRANT,
                .client = lease->client,
                .pool = block_pool(lease->block),
                .serial = lease->serial,
                .block = lease->block,
                .lease = lease,
                .known = known,
        };
}

static struct order of_notice(struct order_node *node)
{
        struct lease *lease = CONTAINER_OF(node, struct lease, order);

        return (struct order){
                .kind = ORDER_NOTICE,
                .client = lease->client,
                .pool = block_pool(lease->block),
                .block = lease->block,
                .lease = lease,
        };
}

static struct order of_client(struct order_node *node)
{
        return (struct order){
                .kind = ORDER_MARK,
                .client = CONTAINER_OF(node, struct client, mark),
        };
}

static struct order of_refusal(struct order_node *node)
{
        struct refusal *refusal = CONTAINER_OF(node, struct refusal, order);
        struct order order = {
                .kind = ORDER_REFUSE,
                .client = refusal->client,
                .pool = refusal->pool,
                .serial = refusal->serial,
                .only_known = refusal->request && refusal->request->only_known,
                .outcome = refusal->outcome,
                .n_bytes = refusal->n_bytes,
                .limit = refusal->hit,
                .of_blocks = refusal->of_blocks,
        };

        request_free(refusal->request);
        return order;
}

static struct order of_free_all(struct order_node *node)
{
        struct free_all *free_all = CONTAINER_OF(node, struct free_all, order);
        struct order order = {
                .kind = ORDER_FREED,
                .client = free_all->client,
                .pool = free_all->pool,
                .serial = free_all->serial,
                .n_bytes = free_all->n_bytes,
                .n_blocks = free_all->n_blocks,
                .of_others = free_all->of_others,
        };

        free_all_free(free_all);
        return order;
}

struct order policy_next_order(struct policy *policy)
{
        struct order_node *node = order_take(&policy->orders);

        switch (node ? node->kind : ORDER_NONE) {
        case ORDER_CREATE:
        case ORDER_RELEASE:
                return of_block(node->kind, node);
        case ORDER_GRANT:
                return of_lease(node);
        case ORDER_REFUSE:
                return of_refusal(node);
        case ORDER_FREED:
                return of_free_all(node);
        case ORDER_NOTICE:
                return of_notice(node);
        case ORDER_MARK:
                return of_client(node);
        case ORDER_NONE:
                break;
        }
        return (struct order){.kind = ORDER_NONE};
}
