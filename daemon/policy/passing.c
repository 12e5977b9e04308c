#include "daemon/policy/passing.h"

#include "daemon/policy/request.h"

void passing_wait(struct passing *passing, struct request *request)
{
        unsigned n_left = PASSING_MAX > request->n_passed ? PASSING_MAX - request->n_passed : 0;

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

        for (request = passing->first; request; request = request->waits_next)
                request->n_passed += passing->n_passed - request->n_passed_before;
}
