/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/waiting_queue.h"

#include <assert.h>

void waiting_queue_init(struct waiting_queue *queue)
{
        TAILQ_INIT(&queue->holdings);
}

/* A tenant that begins to wait during a walk is not met by it, nor sorted. */
static void enlist(struct holding *holding)
{
        struct waiting_queue *queue = &holding->pool->queue;

        holding->place = 0;
        holding->next = NULL;
        if (queue->walk.number)
                TAILQ_INSERT_HEAD(&queue->holdings, holding, queue_link);
        else
                TAILQ_INSERT_TAIL(&queue->holdings, holding, queue_link);
        if (holding->n_given_bytes < queue->reached)
                holding->n_given_bytes = queue->reached;
}

void waiting_queue_enqueue(struct request *request)
{
        struct holding *holding = request_holding(request);

        if (TAILQ_EMPTY(&holding->waiting))
                enlist(holding);
        request->number = ++request->pool->queue.n_enqueued;
        request->meant = 0;
        TAILQ_INSERT_TAIL(&holding->waiting, request, queue_link);
}

/* Of its tenant, in this walk. */
static struct request *met_after(const struct request *request)
{
        struct request *next = TAILQ_NEXT(request, queue_link);

        return next && next->number <= request->pool->queue.walk.last ? next : NULL;
}

static void leave_walk(struct request *request)
{
        struct queue_walk *walk = &request->pool->queue.walk;
        struct holding *holding = request_holding(request);
        const struct client *client = request->client;

        if (holding->next == request)
                holding->next = met_after(request);
        if (walk->met != request && client->stuck == client->policy->n_deadlock_looks)
                walk->has_lost = true;
        if (walk->met == request)
                walk->met = NULL;
        if (walk->unfinished == request)
                walk->unfinished = NULL;
        if (walk->number && request->meant == walk->number) {
                walk->n_meant_bytes -= request->n_meant_bytes;
                walk->n_meant--;
        }
        request->meant = 0;
}

static void delist(struct holding *holding)
{
        struct waiting_queue *queue = &holding->pool->queue;
        struct queue_walk *walk = &queue->walk;

        if (walk->to_sort == holding)
                walk->to_sort = TAILQ_NEXT(holding, queue_link);
        if (walk->after == holding)
                walk->after = TAILQ_NEXT(holding, queue_link);
        if (walk->at == holding)
                walk->at = NULL;
        TAILQ_REMOVE(&queue->holdings, holding, queue_link);
}

void waiting_queue_dequeue(struct request *request)
{
        struct holding *holding = request_holding(request);

        leave_walk(request);
        TAILQ_REMOVE(&holding->waiting, request, queue_link);
        if (TAILQ_EMPTY(&holding->waiting))
                delist(holding);
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

/* Those without a next request, which came during the walk or are done, stand before all others. */
static bool is_before(const struct holding *a, const struct holding *b)
{
        if (!a->next || !b->next)
                return !a->next && b->next;
        if (a->place != b->place)
                return a->place < b->place;
        return a->next->number < b->next->number;
}

/* So many comparisons take as long as one request. */
#define COMPARISONS_AN_ITEM 16

static void count(unsigned *n_left, unsigned n_comparisons)
{
        unsigned n_items = 1 + n_comparisons / COMPARISONS_AN_ITEM;

        *n_left -= n_items < *n_left ? n_items : *n_left;
}

void waiting_queue_begin(struct waiting_queue *queue, uint64_t number)
{
        queue->walk = (struct queue_walk){.number = number,
                                          .last = queue->n_enqueued,
                                          .to_sort = TAILQ_FIRST(&queue->holdings)};
}

/* Few holdings have changed places since the last walk, so insertion sort needs few comparisons. */
static unsigned sort_one(struct waiting_queue *queue, struct holding *holding)
{
        struct holding *other = TAILQ_PREV(holding, waiting_queue_holdings, queue_link);
        unsigned n = 0;

        holding->place = holding->n_given_bytes;
        holding->next = TAILQ_FIRST(&holding->waiting);
        if (holding->next->number > queue->walk.last)
                holding->next = NULL;
        for (; other && is_before(holding, other); n++)
                other = TAILQ_PREV(other, waiting_queue_holdings, queue_link);
        if (!n)
                return n;
        TAILQ_REMOVE(&queue->holdings, holding, queue_link);
        if (other)
                TAILQ_INSERT_AFTER(&queue->holdings, other, holding, queue_link);
        else
                TAILQ_INSERT_HEAD(&queue->holdings, holding, queue_link);
        return n;
}

bool waiting_queue_sort(struct waiting_queue *queue, unsigned *n_left)
{
        struct queue_walk *walk = &queue->walk;
        struct holding *holding;

        while (walk->to_sort && *n_left) {
                holding = walk->to_sort;
                walk->to_sort = TAILQ_NEXT(holding, queue_link);
                count(n_left, sort_one(queue, holding));
        }
        if (walk->to_sort)
                return true;
        if (!walk->is_sorted)
                walk->after = TAILQ_FIRST(&queue->holdings);
        walk->is_sorted = true;
        return false;
}

/* Moves the tenant to the place of its next request; returns the tenant that is first now. */
static struct holding *move_back(struct waiting_queue *queue, unsigned *n_comparisons)
{
        struct holding *holding = queue->walk.at, *after = queue->walk.after, *other = after;

        for (; other && is_before(other, holding); ++*n_comparisons)
                other = TAILQ_NEXT(other, queue_link);
        if (other == after)
                return holding;
        TAILQ_REMOVE(&queue->holdings, holding, queue_link);
        if (other)
                TAILQ_INSERT_BEFORE(other, holding, queue_link);
        else
                TAILQ_INSERT_TAIL(&queue->holdings, holding, queue_link);
        return after;
}

struct request *waiting_queue_next(struct waiting_queue *queue, unsigned *n_left)
{
        struct queue_walk *walk = &queue->walk;
        unsigned n_comparisons = 0;

        walk->at = walk->at && walk->at->next ? move_back(queue, &n_comparisons) : walk->after;
        for (; walk->at && !walk->at->next; n_comparisons++)
                walk->at = TAILQ_NEXT(walk->at, queue_link);
        count(n_left, n_comparisons);
        if (!walk->at)
                return NULL;
        walk->met = walk->at->next;
        walk->at->next = met_after(walk->met);
        walk->after = TAILQ_NEXT(walk->at, queue_link);
        return walk->met;
}

void waiting_queue_assign(struct waiting_queue *queue, uint64_t n_bytes)
{
        queue->walk.at->place += n_bytes;
}

void waiting_queue_mean(struct request *request, uint64_t n_bytes)
{
        struct queue_walk *walk = &request->pool->queue.walk;

        request->meant = walk->number;
        request->n_meant_bytes = n_bytes;
        walk->n_meant_bytes += n_bytes;
        walk->n_meant++;
}

struct request *waiting_queue_go_on(struct waiting_queue *queue)
{
        queue->walk.met = queue->walk.unfinished;
        queue->walk.unfinished = NULL;
        return queue->walk.met;
}

void waiting_queue_rest(struct waiting_queue *queue, enum waiting_queue_end end)
{
        queue->walk.unfinished = end == WAITING_QUEUE_UNFINISHED ? queue->walk.met : NULL;
        queue->walk.met = NULL;
}

void waiting_queue_stop(struct waiting_queue *queue)
{
        queue->walk = (struct queue_walk){.number = 0};
}
