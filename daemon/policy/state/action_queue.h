/* SPDX-License-Identifier: Apache-2.0 */
/* Actions that wait to be taken. An action stands in the object that it is about, so that giving one needs no memory
 * and cannot fail. The object owns the node and withdraws it before it is freed: no action outlives what it names. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "daemon/policy/state/types.h"

static inline void action_queue_init(struct action_queue *queue)
{
        TAILQ_INIT(&queue->nodes);
}

static inline bool action_is_queued(const struct action_node *node)
{
        return node->queue;
}

static inline void action_push(struct action_queue *queue, struct action_node *node,
                               enum action_kind kind)
{
        assert(!action_is_queued(node));
        node->kind = kind;
        node->queue = queue;
        TAILQ_INSERT_TAIL(&queue->nodes, node, link);
}

/* Legal also when it is not queued. */
static inline void action_withdraw(struct action_node *node)
{
        if (!node->queue)
                return;
        TAILQ_REMOVE(&node->queue->nodes, node, link);
        node->queue = NULL;
}

/* The oldest action, which is not queued any more; NULL when there is none. */
static inline struct action_node *action_take(struct action_queue *queue)
{
        struct action_node *node = TAILQ_FIRST(&queue->nodes);

        if (node)
                action_withdraw(node);
        return node;
}
