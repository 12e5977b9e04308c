/* Orders that wait to be taken. An order stands in the object that it is about, so that giving one
 * needs no memory and cannot fail. The object owns the node and withdraws it before it is freed:
 * no order outlives what it names. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "daemon/policy/state/types.h"

static inline void order_queue_init(struct order_queue *queue)
{
        TAILQ_INIT(&queue->nodes);
}

static inline bool order_is_queued(const struct order_node *node)
{
        return node->queue;
}

static inline void order_push(struct order_queue *queue, struct order_node *node,
                              enum order_kind kind)
{
        assert(!order_is_queued(node));
        node->kind = kind;
        node->queue = queue;
        TAILQ_INSERT_TAIL(&queue->nodes, node, link);
}

/* Legal also when it is not queued. */
static inline void order_withdraw(struct order_node *node)
{
        if (!node->queue)
                return;
        TAILQ_REMOVE(&node->queue->nodes, node, link);
        node->queue = NULL;
}

/* The oldest order, which is not queued any more; NULL when there is none. */
static inline struct order_node *order_take(struct order_queue *queue)
{
        struct order_node *node = TAILQ_FIRST(&queue->nodes);

        if (node)
                order_withdraw(node);
        return node;
}
