#include "daemon/policy/passing.h"

#include <limits.h>

#include "daemon/policy/request.h"

uint64_t passing_hold_end(const struct passing_hold *hold)
{
        return hold->was ? hold->since_ns + PASSING_HOLD_NS : 0;
}

static bool is_held_up(struct passing_hold *hold, uint64_t now_ns)
{
        if (!hold->was || now_ns >= hold->since_ns + PASSING_ROUND_NS)
                *hold = (struct passing_hold){.was = true, .since_ns = now_ns};
        return now_ns < passing_hold_end(hold);
}

static unsigned times_left(const struct request *request, struct passing_hold *hold,
                           uint64_t now_ns)
{
        if (request->n_passed < PASSING_MAX)
                return PASSING_MAX - request->n_passed;
        return is_held_up(hold, now_ns) ? 0 : UINT_MAX;
}

void passing_wait(struct passing *passing, struct request *request, struct passing_hold *hold,
                  uint64_t now_ns)
{
        unsigned n_left = times_left(request, hold, now_ns);

        if (!passing->first || n_left < passing->n_left)
                passing->n_left = n_left;
        if (!passing->first || request->n_bytes < passing->n_least_bytes)
                passing->n_least_bytes = request->n_bytes;
        request->waits_next = passing->first;
        request->n_passed_before = passing->n_passed;
        passing->first = request;
}

bool passing_is_allowed(const struct passing *passing, const struct request *request)
{
        return !passing->first ||
               (passing->n_left > 0 && request->n_bytes < passing->n_least_bytes);
}

void passing_mean(struct passing *passing)
{
        if (passing->first)
                passing->n_left--;
}

void passing_count(struct passing *passing)
{
        passing->n_passed++;
}

void passing_end(struct passing *passing)
{
        struct request *request;

        for (request = passing->first; request; request = request->waits_next) {
                request->n_passed += passing->n_passed - request->n_passed_before;
                if (request->n_passed > PASSING_MAX)
                        request->n_passed = PASSING_MAX;
        }
}
