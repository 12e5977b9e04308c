#include "daemon/policy/state/line.h"

#include <assert.h>

static struct holding *holding_of(const struct request *request)
{
        return &request->client->tenant->holdings[request->pool->id];
}

void line_init(struct line *line)
{
        TAILQ_INIT(&line->holdings);
}

void line_join(struct request *request)
{
        struct holding *holding = holding_of(request);
        struct line *line = &request->pool->line;

        if (TAILQ_EMPTY(&holding->waiting)) {
                TAILQ_INSERT_TAIL(&line->holdings, holding, line_link);
                if (holding->n_given_bytes < line->reached)
                        holding->n_given_bytes = line->reached;
        }
        request->number = ++line->n_joined;
        TAILQ_INSERT_TAIL(&holding->waiting, request, line_link);
}

void line_leave(struct request *request)
{
        struct holding *holding = holding_of(request);

        TAILQ_REMOVE(&holding->waiting, request, line_link);
        if (TAILQ_EMPTY(&holding->waiting))
                TAILQ_REMOVE(&request->pool->line.holdings, holding, line_link);
}

void line_give(struct holding *holding, uint64_t n_bytes)
{
        struct line *line = &holding->pool->line;

        if (line->reached < holding->n_given_bytes)
                line->reached = holding->n_given_bytes;
        holding->n_given_bytes += n_bytes;
}

void line_take_back(struct holding *holding, uint64_t n_bytes)
{
        assert(holding->n_given_bytes >= n_bytes);
        holding->n_given_bytes -= n_bytes;
}

void line_end(const struct holding *holding)
{
        struct line *line = &holding->pool->line;
        uint64_t n_given_bytes = holding->n_given_bytes;
        const struct holding *other;

        TAILQ_FOREACH (other, &line->holdings, line_link) {
                if (other->n_given_bytes < n_given_bytes)
                        n_given_bytes = other->n_given_bytes;
        }
        if (line->reached < n_given_bytes)
                line->reached = n_given_bytes;
}

static bool is_before(const struct holding *a, const struct holding *b)
{
        if (a->place != b->place)
                return a->place < b->place;
        return a->next->number < b->next->number;
}

/* Few have changed places since the last walk: nobody is compared with many. */
static void sort(struct line *line)
{
        struct line_holdings unsorted = TAILQ_HEAD_INITIALIZER(unsorted);
        struct holding *holding, *other;

        TAILQ_CONCAT(&unsorted, &line->holdings, line_link);
        while ((holding = TAILQ_FIRST(&unsorted))) {
                TAILQ_REMOVE(&unsorted, holding, line_link);
                other = TAILQ_LAST(&line->holdings, line_holdings);
                while (other && is_before(holding, other))
                        other = TAILQ_PREV(other, line_holdings, line_link);
                if (other)
                        TAILQ_INSERT_AFTER(&line->holdings, other, holding, line_link);
                else
                        TAILQ_INSERT_HEAD(&line->holdings, holding, line_link);
        }
}

struct line_walk line_begin(struct line *line)
{
        struct holding *holding;

        TAILQ_FOREACH (holding, &line->holdings, line_link) {
                holding->place = holding->n_given_bytes;
                holding->next = TAILQ_FIRST(&holding->waiting);
        }
        sort(line);
        return (struct line_walk){.line = line, .after = TAILQ_FIRST(&line->holdings)};
}

/* Puts the tenant where its next request belongs; returns the one that is first now. */
static struct holding *move_back(struct line_walk *walk)
{
        struct holding *holding = walk->at, *other = walk->after;

        while (other && is_before(other, holding))
                other = TAILQ_NEXT(other, line_link);
        if (other == walk->after)
                return holding;
        TAILQ_REMOVE(&walk->line->holdings, holding, line_link);
        if (other)
                TAILQ_INSERT_BEFORE(other, holding, line_link);
        else
                TAILQ_INSERT_TAIL(&walk->line->holdings, holding, line_link);
        return walk->after;
}

struct request *line_next(struct line_walk *walk)
{
        struct request *request;

        walk->at = walk->at && walk->at->next ? move_back(walk) : walk->after;
        if (!walk->at)
                return NULL;
        request = walk->at->next;
        walk->at->next = TAILQ_NEXT(request, line_link);
        walk->after = TAILQ_NEXT(walk->at, line_link);
        return request;
}

void line_mean(struct line_walk *walk, uint64_t n_bytes)
{
        walk->at->place += n_bytes;
}
