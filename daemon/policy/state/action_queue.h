/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of actions. An action is a member of the object that it is about, so that queueing it needs no
 * memory and cannot fail. The object owns the node and withdraws it before it is freed: no action outlives
 * its objects. */
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

/* Also legal when it is not queued. */
static inline void action_withdraw(struct action_node *node)
{
        if (!node->queue)
                return;
        TAILQ_REMOVE(&node->queue->nodes, node, link);
        node->queue = NULL;
}

/* Removes and returns the oldest action; NULL: the queue is empty. */
static inline struct action_node *action_take(struct action_queue *queue)
{
        struct action_node *node = TAILQ_FIRST(&queue->nodes);

        if (node)
                action_withdraw(node);
        return node;
}
