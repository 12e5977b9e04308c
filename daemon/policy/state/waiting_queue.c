/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/waiting_queue.h"

#include <assert.h>

static struct holding *holding_of(const struct request *request)
{
        return &request->client->tenant->holdings[request->pool->id];
}

void waiting_queue_init(struct waiting_queue *queue)
{
        TAILQ_INIT(&queue->holdings);
}

void waiting_queue_enqueue(struct request *request)
{
        struct holding *holding = holding_of(request);
        struct waiting_queue *queue = &request->pool->queue;

        if (TAILQ_EMPTY(&holding->waiting)) {
                TAILQ_INSERT_TAIL(&queue->holdings, holding, queue_link);
                if (holding->n_given_bytes < queue->reached)
                        holding->n_given_bytes = queue->reached;
        }
        request->number = ++queue->n_enqueued;
        TAILQ_INSERT_TAIL(&holding->waiting, request, queue_link);
}

void waiting_queue_dequeue(struct request *request)
{
        struct holding *holding = holding_of(request);

        TAILQ_REMOVE(&holding->waiting, request, queue_link);
        if (TAILQ_EMPTY(&holding->waiting))
                TAILQ_REMOVE(&request->pool->queue.holdings, holding, queue_link);
}

void waiting_queue_give(struct holding *holding, uint64_t n_bytes)
{
        struct waiting_queue *queue = &holding->pool->queue;

        if (queue->reached < holding->n_given_bytes)
                queue->reached = holding->n_given_bytes;
        holding->n_given_bytes += n_bytes;
}

void waiting_queue_take_back(struct holding *holding, uint64_t n_bytes)
{
        assert(holding->n_given_bytes >= n_bytes);
        holding->n_given_bytes -= n_bytes;
}

void waiting_queue_end(const struct holding *holding)
{
        struct waiting_queue *queue = &holding->pool->queue;
        uint64_t n_given_bytes = holding->n_given_bytes;
        const struct holding *other;

        TAILQ_FOREACH (other, &queue->holdings, queue_link) {
                if (other->n_given_bytes < n_given_bytes)
                        n_given_bytes = other->n_given_bytes;
        }
        if (queue->reached < n_given_bytes)
                queue->reached = n_given_bytes;
}

static bool is_before(const struct holding *a, const struct holding *b)
{
        if (a->place != b->place)
                return a->place < b->place;
        return a->next->number < b->next->number;
}

/* Few holdings have changed places since the last walk, so insertion sort needs few comparisons. */
static void sort(struct waiting_queue *queue)
{
        struct waiting_queue_holdings unsorted = TAILQ_HEAD_INITIALIZER(unsorted);
        struct holding *holding, *other;

        TAILQ_CONCAT(&unsorted, &queue->holdings, queue_link);
        while ((holding = TAILQ_FIRST(&unsorted))) {
                TAILQ_REMOVE(&unsorted, holding, queue_link);
                other = TAILQ_LAST(&queue->holdings, waiting_queue_holdings);
                while (other && is_before(holding, other))
                        other = TAILQ_PREV(other, waiting_queue_holdings, queue_link);
                if (other)
                        TAILQ_INSERT_AFTER(&queue->holdings, other, holding, queue_link);
                else
                        TAILQ_INSERT_HEAD(&queue->holdings, holding, queue_link);
        }
}

struct waiting_queue_walk waiting_queue_begin(struct waiting_queue *queue)
{
        struct holding *holding;

        TAILQ_FOREACH (holding, &queue->holdings, queue_link) {
                holding->place = holding->n_given_bytes;
                holding->next = TAILQ_FIRST(&holding->waiting);
        }
        sort(queue);
        return (struct waiting_queue_walk){.queue = queue, .after = TAILQ_FIRST(&queue->holdings)};
}

/* Moves the tenant to the place of its next request; returns the tenant that is first now. */
static struct holding *move_back(struct waiting_queue_walk *walk)
{
        struct holding *holding = walk->at, *other = walk->after;

        while (other && is_before(other, holding))
                other = TAILQ_NEXT(other, queue_link);
        if (other == walk->after)
                return holding;
        TAILQ_REMOVE(&walk->queue->holdings, holding, queue_link);
        if (other)
                TAILQ_INSERT_BEFORE(other, holding, queue_link);
        else
                TAILQ_INSERT_TAIL(&walk->queue->holdings, holding, queue_link);
        return walk->after;
}

struct request *waiting_queue_next(struct waiting_queue_walk *walk)
{
        struct request *request;

        walk->at = walk->at && walk->at->next ? move_back(walk) : walk->after;
        if (!walk->at)
                return NULL;
        request = walk->at->next;
        walk->at->next = TAILQ_NEXT(request, queue_link);
        walk->after = TAILQ_NEXT(walk->at, queue_link);
        return request;
}

void waiting_queue_assign(struct waiting_queue_walk *walk, uint64_t n_bytes)
{
        walk->at->place += n_bytes;
}
