/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/service.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/scheduling/admission.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/scheduling/turn.h"
#include "daemon/policy/state/walk_part.h"
#include "daemon/policy/state/waiting_queue.h"
#include "gpumem.h"

/* Leases that are scanned, and tenants that are compared, in the time of one item. */
#define SCANS_AN_ITEM 4

/* Different sizes of the parts of a group that waits. */
#define SIZES_AN_ITEM 4

/* What comes next in the pool. */
enum phase { PHASE_UNMAPS, PHASE_SORT, PHASE_MEET, PHASE_DEADLOCK };

struct service {
        bool is_under_way; /* a pass */
        bool is_of_all;    /* pools: limits connect them */
        uint32_t pool;     /* the present one */
        enum phase phase;
        uint64_t n_charges, n_revocations; /* when the pass began */
        struct turn turn;
};

int service_new(struct service **ret_service)
{
        struct service *service = calloc(1, sizeof(*service));

        if (!service)
                return -ENOMEM;
        *ret_service = service;
        return 0;
}

static void take(unsigned *n_left, uint64_t n_items)
{
        *n_left -= n_items < *n_left ? (unsigned)n_items : *n_left;
}

static bool note_unmaps(struct pool *pool, unsigned *n_left, uint64_t now_ns)
{
        for (; unmap_timeout_next(pool) <= now_ns; take(n_left, 1)) {
                if (!*n_left)
                        return true;
                unmap_timeout_note_next(pool);
        }
        return false;
}

static void begin_walk(struct turn *turn, struct pool *pool)
{
        uint64_t number = ++pool->policy->n_walks;

        *turn = (struct turn){.pool = pool,
                              .number = number,
                              .n_cachings = pool->n_cachings,
                              .n_scans = REVOKE_IDLE_SCANS_A_WALK,
                              .deadline_ns = UINT64_MAX};
        backfill_begin(&turn->backfill, pool, number);
        deadlock_begin(&turn->look, pool->policy);
        waiting_queue_begin(&pool->queue, number);
}

/* Blocks may have come and gone since the walk rested. */
static void count_bytes(struct turn *turn, uint64_t now_ns)
{
        const struct pool *pool = turn->pool;
        uint64_t n_bytes, n_meant_bytes = pool->queue.walk.n_meant_bytes;

        turn->now_ns = now_ns;
        turn->n_owed_bytes = pool_debt(pool);
        turn->n_sure_bytes = 0;
        if (turn->n_owed_bytes)
                return;
        n_bytes = pool->settings.max_bytes + pool->totals.incoming - totals_reserved(&pool->totals);
        turn->n_sure_bytes = n_bytes > n_meant_bytes ? n_bytes - n_meant_bytes : 0;
}

static void note_wait(struct turn *turn, struct request *request)
{
        deadlock_meet(&turn->look, request);
        if (turn->pool->driver_status == DRIVER_SERVES &&
            (request->state != REQUEST_WAITING || request->covered))
                return;
        turn->has_unsure = true;
        if (request->deadline_ns < turn->deadline_ns)
                turn->deadline_ns = request->deadline_ns;
}

/* Where a part ended with the walk's present request, which may have left the queue since, it goes on with that. */
static struct request *next_request(struct turn *turn, unsigned *n_left)
{
        struct waiting_queue *queue = &turn->pool->queue;
        struct request *request = waiting_queue_go_on(queue);

        turn->goes_on = request;
        turn->rests = false;
        if (request)
                return request;
        turn->n_trimmed_bytes = turn->n_evicted_bytes = 0;
        return waiting_queue_next(queue, n_left);
}

/* Returns the items that it was. */
static uint64_t meet(struct turn *turn, struct request *request)
{
        unsigned n_scans = turn->n_scans, n_looks = turn->backfill.n_looks;
        unsigned n_answers = request->n_parts;
        bool was_waiting = request->state == REQUEST_WAITING;

        backfill_meet(&turn->backfill, request, turn->now_ns);
        admission_meet(turn, request);
        if (turn->rests) {
                waiting_queue_rest(&turn->pool->queue, WAITING_QUEUE_UNFINISHED);
                turn->n_scans = n_scans;
                return PART_ITEMS;
        }
        n_scans += turn->backfill.n_looks - n_looks - turn->n_scans;
        if (!turn->pool->queue.walk.met)
                return n_answers * SERVICE_ANSWER_ITEMS + n_scans / SCANS_AN_ITEM;
        note_wait(turn, request);
        waiting_queue_rest(&turn->pool->queue, WAITING_QUEUE_DONE_WITH);
        if (was_waiting && request->state != REQUEST_WAITING)
                return SERVICE_ANSWER_ITEMS + n_scans / SCANS_AN_ITEM;
        return request->n_sizes / SIZES_AN_ITEM + n_scans / SCANS_AN_ITEM;
}

/* Returns whether it has more to meet. */
static bool meet_some(struct turn *turn, unsigned *n_left, uint64_t now_ns)
{
        struct request *request;

        count_bytes(turn, now_ns);
        while (*n_left) {
                unsigned n_looks = turn->pool->policy->n_looks_left;

                request = next_request(turn, n_left);
                if (!request)
                        return false;
                take(n_left, meet(turn, request));
                n_looks -= turn->pool->policy->n_looks_left;
                take(n_left, n_looks / PART_LOOKS_AN_ITEM);
                /* The bytes are counted again before it goes on. */
                if (turn->rests)
                        return true;
        }
        return true;
}

static void note_walk(struct pool *pool, const struct turn *turn)
{
        pool->has_unsure = turn && turn->has_unsure;
        pool->deadline_ns = turn ? turn->deadline_ns : UINT64_MAX;
        pool->hold_end_ns = turn ? turn->backfill.hold_end_ns : UINT64_MAX;
}

/* A refused request may have held up others, so the walk is repeated. */
static bool end_walk(struct turn *turn, unsigned *n_left, uint64_t now_ns)
{
        struct pool *pool = turn->pool;
        struct request *request = deadlock_find(&turn->look, pool, now_ns);

        note_walk(pool, turn);
        waiting_queue_stop(&pool->queue);
        pool->n_passed_by = turn->n_cachings;
        if (!request)
                return false;
        request->refusal.of_deadlock = true;
        take(n_left, (uint64_t)request->n_parts * SERVICE_ANSWER_ITEMS);
        request_refuse(request, GPUMEM_E_REFUSED);
        return true;
}

static void end_unwalked(struct pool *pool)
{
        note_walk(pool, NULL);
        pool->n_passed_by = pool->n_cachings;
        pool->stuck_since_ns = 0;
}

/* Does what is next in the pool. Returns whether there is more to do in it. */
static bool go_on(struct service *service, struct pool *pool, unsigned *n_left, uint64_t now_ns)
{
        struct turn *turn = &service->turn;

        switch (service->phase) {
        case PHASE_UNMAPS:
                if (note_unmaps(pool, n_left, now_ns))
                        return true;
                if (!pool->n_waiting) {
                        end_unwalked(pool);
                        return false;
                }
                begin_walk(turn, pool);
                service->phase = PHASE_SORT;
                return true;
        case PHASE_SORT:
                if (!waiting_queue_sort(&pool->queue, n_left))
                        service->phase = PHASE_MEET;
                return true;
        case PHASE_MEET:
                if (meet_some(turn, n_left, now_ns))
                        return true;
                deadlock_met_all(&turn->look, pool);
                service->phase = PHASE_DEADLOCK;
                return true;
        case PHASE_DEADLOCK:
                if (deadlock_look_on(&turn->look, pool, n_left))
                        return true;
                service->phase = PHASE_UNMAPS;
                return end_walk(turn, n_left, now_ns);
        }
        return false;
}

/* Whether an event in one pool may serve a request in another. */
static bool spans_pools(const struct policy *policy)
{
        return policy->limits || policy->wants_fd;
}

/* The first one from that pool on about which the policy was told something; n_pools: there is none. */
static uint32_t next_unserved(const struct policy *policy, uint32_t pool)
{
        while (pool < policy->n_pools && !policy->pools[pool]->unserved)
                pool++;
        return pool;
}

static uint32_t next_pool(const struct policy *policy, uint32_t pool)
{
        return policy->service->is_of_all ? pool : next_unserved(policy, pool);
}

static void begin_pass(struct policy *policy)
{
        struct service *service = policy->service;

        service->is_under_way = true;
        service->pool = next_pool(policy, 0);
        service->n_charges = policy->n_charges;
        service->n_revocations = policy->n_revocations;
}

/* Returns whether an event has left something to serve. */
static bool begin(struct policy *policy)
{
        if (next_unserved(policy, 0) == policy->n_pools)
                return false;
        policy->service->is_of_all = spans_pools(policy);
        for (uint32_t i = 0; i < policy->n_pools && policy->service->is_of_all; i++)
                policy->pools[i]->unserved = false;
        policy->wants_fd = policy->wants_fd && !policy->service->is_of_all;
        begin_pass(policy);
        return true;
}

/* A charge in one pool may end or begin a wait for a limit in another. A block that was revoked for one
 * request may serve another. So the queues are walked until nothing changes. */
static void end_pass(struct policy *policy)
{
        struct service *service = policy->service;

        service->is_under_way = false;
        if (service->is_of_all && (policy->n_charges != service->n_charges ||
                                   policy->n_revocations != service->n_revocations))
                begin_pass(policy);
}

/* Goes on with the present pool, or to the next one. */
static void go_on_with_pass(struct policy *policy, unsigned *n_left, uint64_t now_ns)
{
        struct service *service = policy->service;
        struct pool *pool = policy->pools[service->pool];

        if (!service->is_of_all && service->phase == PHASE_UNMAPS)
                pool->unserved = false;
        if (!go_on(service, pool, n_left, now_ns))
                service->pool = next_pool(policy, service->pool + 1);
        if (service->pool == policy->n_pools)
                end_pass(policy);
}

/* Returns whether more is left. It is no client's affair that the limits are lower. */
static bool evict_some(struct policy *policy)
{
        bool has_more = false;

        policy->line = policy->node_line;
        for (uint32_t i = 0; i < policy->n_pools && !has_more; i++)
                has_more = evict_cached_to_limit(policy->pools[i]);
        policy->line = 0;
        return has_more;
}

/* A part that leaves some is whole: walks wait until nothing cached is above a limit. */
static void evict_to_limits(struct policy *policy, unsigned *n_left)
{
        unsigned n_looks = policy->n_looks_left;

        if (evict_some(policy)) {
                *n_left = 0;
                return;
        }
        take(n_left, (n_looks - policy->n_looks_left) / PART_LOOKS_AN_ITEM);
}

unsigned service_go_on(struct policy *policy, unsigned n_items, uint64_t now_ns)
{
        if (policy->in_turns)
                policy->n_looks_left = n_items < UINT_MAX / PART_LOOKS_AN_ITEM
                                               ? n_items * PART_LOOKS_AN_ITEM
                                               : UINT_MAX;
        if (n_items)
                evict_to_limits(policy, &n_items);
        while (n_items && (policy->service->is_under_way || begin(policy)))
                go_on_with_pass(policy, &n_items, now_ns);
        policy->n_looks_left = UINT_MAX;
        return n_items;
}

void service_serve(struct pool *pool, uint64_t now_ns)
{
        pool->unserved = true;
        pool->policy->n_events++;
        while (!pool->policy->in_turns && !service_go_on(pool->policy, UINT_MAX, now_ns))
                continue;
}

uint64_t service_next_deadline(const struct pool *pool)
{
        uint64_t earliest_ns = UINT64_MAX;

        if (pool->n_waiting && pool->has_unsure)
                earliest_ns = pool->deadline_ns;
        if (pool->n_waiting && pool->hold_end_ns > pool->policy->now_ns &&
            pool->hold_end_ns < earliest_ns)
                earliest_ns = pool->hold_end_ns;
        if (deadlock_next(pool) < earliest_ns)
                earliest_ns = deadlock_next(pool);
        if (((pool->n_waiting && pool->has_unsure) || pool->n_awaited) &&
            unmap_timeout_next(pool) < earliest_ns)
                earliest_ns = unmap_timeout_next(pool);
        return earliest_ns;
}
