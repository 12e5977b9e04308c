/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/backfill.h"

uint64_t backfill_hold_end(const struct backfill_hold *hold)
{
        return hold->was ? hold->since_ns + BACKFILL_HOLD_NS : 0;
}

static struct backfill_hold *hold_of(const struct request *request)
{
        return &request->client->tenant->holdings[request->pool->id].hold;
}

static bool has_begun(const struct backfill_hold *hold, uint64_t now_ns)
{
        return hold->was && now_ns < hold->since_ns + BACKFILL_ROUND_NS;
}

static bool is_over(const struct backfill_hold *hold, uint64_t now_ns)
{
        return has_begun(hold, now_ns) && now_ns >= backfill_hold_end(hold);
}

static void add_quiet(struct backfill *backfill, struct backfill_hold *hold, uint64_t n_bytes,
                      unsigned n_allowed)
{
        if (!hold->is_listed) {
                hold->is_listed = true;
                hold->next = backfill->quiet;
                backfill->quiet = hold;
                hold->n_least_bytes = n_bytes;
                hold->n_allowed = n_allowed;
        }
        if (n_bytes < hold->n_least_bytes)
                hold->n_least_bytes = n_bytes;
        if (n_allowed < hold->n_allowed)
                hold->n_allowed = n_allowed;
}

void backfill_wait(struct backfill *backfill, struct request *request, uint64_t now_ns)
{
        unsigned n_allowed = BACKFILL_MAX - request->n_bypassed + backfill->n_assigned;
        struct backfill_hold *hold = hold_of(request);

        request->waits_next = backfill->first;
        request->n_served_before = backfill->n_served;
        backfill->first = request;
        if (is_over(hold, now_ns))
                return;
        if (!backfill->any || n_allowed < backfill->n_allowed)
                backfill->n_allowed = n_allowed;
        if (!backfill->any || request->n_room_bytes < backfill->n_least_bytes)
                backfill->n_least_bytes = request->n_room_bytes;
        backfill->any = true;
        if (!has_begun(hold, now_ns))
                add_quiet(backfill, hold, request->n_room_bytes, n_allowed);
}

bool backfill_is_allowed(const struct backfill *backfill, const struct request *request)
{
        return !backfill->any || (backfill->n_assigned < backfill->n_allowed &&
                                  request->n_room_bytes < backfill->n_least_bytes);
}

/* The holds of all tenants begin together: one after the other, they would hold up others longer. */
void backfill_hold_up(struct backfill *backfill, const struct request *request, uint64_t now_ns)
{
        struct backfill_hold **link = &backfill->quiet, *hold;

        while ((hold = *link)) {
                if (backfill->n_assigned < hold->n_allowed &&
                    request->n_room_bytes < hold->n_least_bytes) {
                        link = &hold->next;
                        continue;
                }
                *link = hold->next;
                *hold = (struct backfill_hold){.was = true, .since_ns = now_ns};
        }
}

void backfill_assign(struct backfill *backfill)
{
        backfill->n_assigned++;
}

void backfill_count(struct backfill *backfill)
{
        backfill->n_served++;
}

void backfill_end(struct backfill *backfill)
{
        struct backfill_hold *hold;
        struct request *request;

        for (hold = backfill->quiet; hold; hold = hold->next)
                hold->is_listed = false;
        for (request = backfill->first; request; request = request->waits_next) {
                request->n_bypassed += backfill->n_served - request->n_served_before;
                if (request->n_bypassed > BACKFILL_MAX)
                        request->n_bypassed = BACKFILL_MAX;
        }
}
