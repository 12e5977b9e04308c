#include "daemon/policy/scheduling/passing.h"

uint64_t passing_hold_end(const struct passing_hold *hold)
{
        return hold->was ? hold->since_ns + PASSING_HOLD_NS : 0;
}

static struct passing_hold *hold_of(const struct request *request)
{
        return &request->client->tenant->holdings[request->pool->id].hold;
}

static bool has_begun(const struct passing_hold *hold, uint64_t now_ns)
{
        return hold->was && now_ns < hold->since_ns + PASSING_ROUND_NS;
}

static bool is_over(const struct passing_hold *hold, uint64_t now_ns)
{
        return has_begun(hold, now_ns) && now_ns >= passing_hold_end(hold);
}

static void add_quiet(struct passing *passing, struct passing_hold *hold, uint64_t n_bytes,
                      unsigned n_may)
{
        if (!hold->is_listed) {
                hold->is_listed = true;
                hold->next = passing->quiet;
                passing->quiet = hold;
                hold->n_least_bytes = n_bytes;
                hold->n_may = n_may;
        }
        if (n_bytes < hold->n_least_bytes)
                hold->n_least_bytes = n_bytes;
        if (n_may < hold->n_may)
                hold->n_may = n_may;
}

void passing_wait(struct passing *passing, struct request *request, uint64_t now_ns)
{
        unsigned n_may = PASSING_MAX - request->n_passed + passing->n_meant;
        struct passing_hold *hold = hold_of(request);

        request->waits_next = passing->first;
        request->n_passed_before = passing->n_passed;
        passing->first = request;
        if (is_over(hold, now_ns))
                return;
        if (!passing->any || n_may < passing->n_may)
                passing->n_may = n_may;
        if (!passing->any || request->n_bytes < passing->n_least_bytes)
                passing->n_least_bytes = request->n_bytes;
        passing->any = true;
        if (!has_begun(hold, now_ns))
                add_quiet(passing, hold, request->n_bytes, n_may);
}

bool passing_is_allowed(const struct passing *passing, const struct request *request)
{
        return !passing->any ||
               (passing->n_meant < passing->n_may && request->n_bytes < passing->n_least_bytes);
}

/* All at once, or several tenants would hold up others one after the other. */
void passing_hold_up(struct passing *passing, const struct request *request, uint64_t now_ns)
{
        struct passing_hold **link = &passing->quiet, *hold;

        while ((hold = *link)) {
                if (passing->n_meant < hold->n_may && request->n_bytes < hold->n_least_bytes) {
                        link = &hold->next;
                        continue;
                }
                *link = hold->next;
                *hold = (struct passing_hold){.was = true, .since_ns = now_ns};
        }
}

void passing_mean(struct passing *passing)
{
        passing->n_meant++;
}

void passing_count(struct passing *passing)
{
        passing->n_passed++;
}

void passing_end(struct passing *passing)
{
        struct passing_hold *hold;
        struct request *request;

        for (hold = passing->quiet; hold; hold = hold->next)
                hold->is_listed = false;
        for (request = passing->first; request; request = request->waits_next) {
                request->n_passed += passing->n_passed - request->n_passed_before;
                if (request->n_passed > PASSING_MAX)
                        request->n_passed = PASSING_MAX;
        }
}
