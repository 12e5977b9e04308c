/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/policy.h"
#include "daemon/policy/report/stats.h"
#include "daemon/server/core/server_state.h"

static_assert(NODE_N_SLOTS == CLIENT_N_SLOTS, "a replayed process has the slots of a real one");

static const struct tenant_key everybody = {.uid = 1000};

struct member {
        struct node *node;
        struct client *client;
        uint32_t serial; /* of the last request */
        int outcome;
        struct node_lease granted;
        enum member_news news;
        struct member *next;
        uint32_t n_slots;
        _Atomic uint64_t words[NODE_N_SLOTS];
};

struct node {
        struct policy *policy;
        uint32_t pool;
        uint64_t now_ns;
        struct member *members;
};

int node_new(uint64_t n_device_bytes, struct node **ret_node)
{
        struct policy_pool pool = {.kind = POLICY_DEVICE,
                                   .max_bytes = n_device_bytes,
                                   .capacity_bytes = n_device_bytes};
        struct node *node = calloc(1, sizeof(*node));
        int r;

        if (!node)
                return -ENOMEM;
        r = policy_new(&node->policy);
        if (!r)
                r = policy_add_pool(node->policy, &pool, &node->pool);
        if (r) {
                (void)node_free(node);
                return r;
        }
        *ret_node = node;
        return 0;
}

struct node *node_free(struct node *node)
{
        struct member *member;

        if (!node)
                return NULL;
        policy_free(node->policy);
        while ((member = node->members)) {
                node->members = member->next;
                free(member);
        }
        free(node);
        return NULL;
}

void node_set_time(struct node *node, double us)
{
        node->now_ns = (uint64_t)(us * 1000);
}

uint64_t node_reserved(const struct node *node)
{
        struct pool_stats stats = {0};

        (void)policy_pool_stats(node->policy, node->pool, &stats);
        return stats.reserved;
}

int node_add_member(struct node *node, uint32_t n_slots, struct member **ret_member)
{
        struct member *member = calloc(1, sizeof(*member));
        int r;

        if (!member)
                return -ENOMEM;
        member->node = node;
        member->n_slots = n_slots;
        r = policy_add_client(node->policy, &everybody, &everybody, n_slots, member->words, member,
                              &member->client);
        if (r) {
                free(member);
                return r;
        }
        member->next = node->members;
        node->members = member;
        *ret_member = member;
        return 0;
}

uint32_t member_n_slots(const struct member *member)
{
        return member->n_slots;
}

static void grant(const struct action *action)
{
        struct member *member = client_owner(action->client);

        member->outcome = 0;
        member->granted = (struct node_lease){lease_id(action->lease),
                                              block_bytes(lease_block(action->lease)),
                                              &member->words[lease_slot(action->lease)]};
}

static void tell(const struct action *action, enum member_news news)
{
        struct member *member = client_owner(action->client);

        if (member->news < news)
                member->news = news;
}

/* Executes every action at once. */
static void obey(struct node *node)
{
        struct action action;

        while ((action = policy_next_action(node->policy)).kind != ACTION_NONE) {
                switch (action.kind) {
                case ACTION_CREATE:
                        policy_created(node->policy, action.block, 0, node, node->now_ns);
                        break;
                case ACTION_RELEASE:
                        policy_released(node->policy, action.block, node->now_ns);
                        break;
                case ACTION_GRANT:
                        grant(&action);
                        break;
                case ACTION_REFUSE:
                        ((struct member *)client_owner(action.client))->outcome = action.outcome;
                        break;
                case ACTION_NOTICE:
                        tell(&action, MEMBER_UNMAP);
                        break;
                case ACTION_MARK:
                        tell(&action, MEMBER_MARK);
                        break;
                case ACTION_PRESSURE:
                case ACTION_FREED:
                case ACTION_NONE:
                        break;
                }
        }
}

int member_lease(struct member *member, uint64_t n_bytes, uint64_t n_least_bytes,
                 uint64_t n_most_bytes, struct node_lease *ret_lease)
{
        struct node *node = member->node;
        struct policy_ask ask = {.pool = node->pool,
                                 .serial = ++member->serial,
                                 .n_bytes = n_bytes,
                                 .n_most_bytes = n_most_bytes,
                                 .n_least_bytes = n_least_bytes,
                                 .deadline_ns = node->now_ns};

        policy_lease(node->policy, member->client, &ask, node->now_ns);
        obey(node);
        if (!member->outcome)
                *ret_lease = member->granted;
        return member->outcome;
}

void member_return(struct member *member, uint64_t lease)
{
        struct node *node = member->node;
        int r = policy_return(node->policy, member->client, lease, RETURN_UNMAPPED, node->now_ns);

        assert(!r);
        obey(node);
}

void member_unmapped(struct member *member, uint64_t lease)
{
        struct node *node = member->node;
        int r = policy_unmapped(node->policy, member->client, lease, node->now_ns);

        assert(!r);
        obey(node);
}

void member_leave(struct member *member)
{
        struct node *node = member->node;

        (void)policy_client_eof(node->policy, member->client, node->now_ns);
        (void)policy_client_dead(node->policy, member->client, node->now_ns);
        member->client = NULL;
        obey(node);
}

enum member_news member_take_news(struct member *member)
{
        enum member_news news = member->news;

        member->news = MEMBER_NONE;
        return news;
}
