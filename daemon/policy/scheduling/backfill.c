/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/backfill.h"

uint64_t backfill_hold_end(const struct backfill_hold *hold)
{
        return hold->was ? hold->since_ns + BACKFILL_HOLD_NS : 0;
}

static struct backfill_hold *hold_of(const struct request *request)
{
        return &request->client->tenant->owner->owned[request->pool->id].hold;
}

static bool has_begun(const struct backfill_hold *hold, uint64_t now_ns)
{
        return hold->was && now_ns < hold->since_ns + BACKFILL_ROUND_NS;
}

static bool is_over(const struct backfill_hold *hold, uint64_t now_ns)
{
        return has_begun(hold, now_ns) && now_ns >= backfill_hold_end(hold);
}

void backfill_begin(struct backfill *backfill, const struct pool *pool, uint64_t walk)
{
        *backfill = (struct backfill){
                .walk = walk, .n_bypasses = pool->n_bypasses, .hold_end_ns = UINT64_MAX};
        LIST_INIT(&backfill->quiet);
}

/* Those since the last walk met it, out of all that the pool had. */
static unsigned bypassed(const struct request *request, uint64_t n_bypasses)
{
        uint64_t n = request->n_bypassed;

        if (request->is_bypassed)
                n += n_bypasses - request->n_bypasses;
        return n < BACKFILL_MAX ? (unsigned)n : BACKFILL_MAX;
}

unsigned backfill_n_bypassed(const struct request *request)
{
        return bypassed(request, request->pool->n_bypasses);
}

static void note_end(struct backfill *backfill, uint64_t end_ns)
{
        if (end_ns < backfill->hold_end_ns)
                backfill->hold_end_ns = end_ns;
}

void backfill_meet(struct backfill *backfill, struct request *request, uint64_t now_ns)
{
        uint64_t end_ns = backfill_hold_end(hold_of(request));

        request->n_bypassed = bypassed(request, backfill->n_bypasses);
        request->is_bypassed = false;
        if (end_ns > now_ns)
                note_end(backfill, end_ns);
}

static void add_quiet(struct backfill *backfill, struct backfill_hold *hold, uint64_t n_bytes,
                      unsigned n_allowed)
{
        if (hold->listed != backfill->walk) {
                hold->listed = backfill->walk;
                LIST_INSERT_HEAD(&backfill->quiet, hold, link);
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

        request->is_bypassed = true;
        request->n_bypasses = request->pool->n_bypasses;
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
        struct backfill_hold *hold, *next;

        for (hold = LIST_FIRST(&backfill->quiet); hold; hold = next) {
                next = LIST_NEXT(hold, link);
                backfill->n_looks++;
                if (backfill->n_assigned < hold->n_allowed &&
                    request->n_room_bytes < hold->n_least_bytes)
                        continue;
                LIST_REMOVE(hold, link);
                *hold = (struct backfill_hold){.was = true, .since_ns = now_ns};
                note_end(backfill, now_ns + BACKFILL_HOLD_NS);
        }
}

void backfill_assign(struct backfill *backfill)
{
        backfill->n_assigned++;
}

void backfill_count(struct pool *pool)
{
        pool->n_bypasses++;
}
