/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/admission.h"

#include <errno.h>

#include "base/size.h"
#include "daemon/policy/accounting/quota.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/scheduling/block_search.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/scheduling/fd_budget.h"
#include "daemon/policy/scheduling/request_group.h"
#include "daemon/policy/scheduling/pressure.h"
#include "daemon/policy/scheduling/turn.h"
#include "daemon/policy/state/waiting_queue.h"
#include "gpumem.h"

#define BLOCK_UNIT (2 * MIB)

/* Blocks that a request looks at when it is served at once. */
#define AT_ONCE_SCANS 16

/* The driver had no memory for it, and nothing, or not enough, has gone back since. */
static bool is_hopeless(const struct request *request)
{
        const struct pool *pool = request->pool;

        return request->device_full &&
               (request->n_backs == pool->n_backs || pool->totals.incoming > 0);
}

/* Whether blocks may have to go back for the request that this part has no time for. */
static bool must_rest(struct turn *turn)
{
        turn->rests = turn->pool->policy->n_looks_left == 0;
        return turn->rests;
}

static void recall(struct turn *turn, const struct request *request, uint64_t n_bytes,
                   enum evict_amount amount)
{
        if (request->deadline_ns <= turn->now_ns)
                return;
        evict_cached_recall(turn->pool, request->client, n_bytes, amount, turn->now_ns,
                            &turn->budget);
        (void)must_rest(turn);
}

static bool cover_hopeless(struct turn *turn, const struct request *request)
{
        uint64_t n_gone_bytes = turn->n_evicted_bytes;

        if (request->pool->totals.incoming > 0 && !n_gone_bytes)
                return true;
        if (n_gone_bytes < request->n_room_bytes)
                turn->n_evicted_bytes += evict_cached(request_holding(request),
                                                      request->n_room_bytes - n_gone_bytes,
                                                      EVICT_UNMAPPED);
        if (turn->n_evicted_bytes < request->n_room_bytes && must_rest(turn))
                return false;
        if (turn->n_evicted_bytes)
                return true;
        recall(turn, request, request->n_room_bytes, EVICT_SOME);
        return false;
}

/* Whether bytes that are certain to come serve the request. Cached blocks are released if that helps. */
static bool cover(struct turn *turn, const struct request *request)
{
        uint64_t n_missing_bytes, n_gone_bytes;

        if (is_hopeless(request))
                return cover_hopeless(turn, request);
        if (turn->n_owed_bytes == 0 && turn->n_sure_bytes >= request->n_room_bytes)
                return true;
        n_missing_bytes = request->n_room_bytes + turn->n_owed_bytes - turn->n_sure_bytes;
        if (turn->pool->totals.evictable < n_missing_bytes) {
                recall(turn, request, n_missing_bytes, EVICT_ENOUGH);
                return false;
        }
        n_gone_bytes = evict_cached(request_holding(request), n_missing_bytes, EVICT_UNMAPPED);
        /* All that is missing was there. */
        if (n_gone_bytes < n_missing_bytes) {
                turn->rests = must_rest(turn) || n_gone_bytes;
                return false;
        }
        turn->n_sure_bytes += n_gone_bytes;
        turn->n_sure_bytes -= turn->n_owed_bytes;
        turn->n_owed_bytes = 0;
        return true;
}

static int timeout_outcome(const struct request *request)
{
        if (request->device_full)
                return GPUMEM_E_DEVICE_FULL;
        return request->may_wait ? GPUMEM_E_TIMED_OUT : GPUMEM_E_REFUSED;
}

static unsigned take_scans(struct turn *turn, uint64_t n)
{
        if (n > turn->n_scans)
                n = turn->n_scans;
        turn->n_scans -= (unsigned)n;
        return (unsigned)n;
}

/* Called before blocks are created: see evict_cached.h. */
static void trim_cache(struct turn *turn, const struct client *asker, uint64_t n_bytes)
{
        uint64_t n_scans = EVICT_SCANS_A_BLOCK + n_bytes / EVICT_BYTES_A_SCAN;
        struct scan_budget budget = turn->budget;
        uint64_t n_left_bytes = n_bytes - turn->n_trimmed_bytes;

        budget.n_left = take_scans(turn, n_scans);
        turn->n_sure_bytes += evict_cached_surplus(turn->pool, asker, &n_left_bytes, turn->now_ns,
                                                   &budget);
        turn->n_trimmed_bytes = n_bytes - n_left_bytes;
        turn->n_scans += budget.n_left;
}

/* Cached blocks serve the group first; the rest of the cache is trimmed, as far as the part lasts: the group cannot be met
 * again. */
static void serve_group(struct turn *turn, struct request *leader)
{
        const struct client *asker = leader->client;
        uint64_t n_bytes = leader->n_room_bytes;

        request_group_serve(leader);
        backfill_count(turn->pool);
        trim_cache(turn, asker, n_bytes);
}

/* A request before waits for room, and gets it first. */
static bool is_held(const struct turn *turn)
{
        return turn->pool->queue.walk.n_meant > 0;
}

static bool is_served_later(const struct turn *turn, const struct request *request)
{
        return is_held(turn) || is_hopeless(request) ||
               pool_room(turn->pool) < request->n_room_bytes;
}

/* For the block that the request gets now. Returns whether all has gone that should. A part in which none goes is the last:
 * there may be many that no limit lets go. */
static bool make_place_in_cache(struct turn *turn, const struct request *request)
{
        uint64_t n_before_bytes = turn->n_trimmed_bytes;

        if (is_served_later(turn, request) || request->in_group)
                return true;
        trim_cache(turn, request->client, request->n_bytes);
        return turn->n_trimmed_bytes == request->n_bytes ||
               turn->n_trimmed_bytes == n_before_bytes || !must_rest(turn);
}

/* Returns whether the request has used its part of the turn's bytes. */
static bool serve_covered(struct turn *turn, struct request *request)
{
        int r;

        if (is_served_later(turn, request)) {
                waiting_queue_mean(request, request->n_room_bytes);
                return true;
        }
        if (request->in_group) {
                serve_group(turn, request);
                return true;
        }
        r = request_create(request);
        if (r)
                request_refuse(request, r);
        else
                backfill_count(turn->pool);
        return !r;
}

static bool serve_by(struct turn *turn, struct request *request, struct block *block)
{
        if (!block)
                return false;
        turn->pool->n_grants_from_cache++;
        request_grant(request, block);
        return true;
}

static bool serve_from_what_there_is(struct turn *turn, struct request *request)
{
        if (request->in_group) {
                request_group_look(request, &turn->budget);
                if (request->n_to_make)
                        return false;
                request_group_serve(request);
                return true;
        }
        return serve_by(turn, request, block_search_find(request, &turn->budget));
}

static bool serve_from_own(struct turn *turn, struct request *request)
{
        return serve_by(turn, request,
                        block_search_find_charged(request, BLOCK_SEARCH_OWN, &turn->budget));
}

/* At its deadline a request may also take blocks that were left for others before. */
static void serve_at_deadline(struct turn *turn, struct request *request, int outcome)
{
        turn->budget.back_too = true;
        if (!serve_from_what_there_is(turn, request))
                request_refuse(request, outcome);
}

static void serve_fresh(struct turn *turn, struct request *request)
{
        uint64_t n_bytes = request->n_room_bytes;
        bool is_allowed = backfill_is_allowed(&turn->backfill, request);

        if (!is_allowed)
                backfill_hold_up(&turn->backfill, request, turn->now_ns);
        request->covered = is_allowed && cover(turn, request);
        if (turn->rests || (request->covered && !make_place_in_cache(turn, request)))
                return;
        if (request->covered) {
                backfill_assign(&turn->backfill);
                waiting_queue_assign(&turn->pool->queue, n_bytes);
                if (serve_covered(turn, request))
                        turn->n_sure_bytes -= n_bytes < turn->n_sure_bytes ? n_bytes
                                                                           : turn->n_sure_bytes;
                return;
        }
        pressure_tell(request, LIMIT_OF_CLIENT, turn->now_ns);
        if (request->deadline_ns <= turn->now_ns)
                serve_at_deadline(turn, request, timeout_outcome(request));
        else
                backfill_wait(&turn->backfill, request, turn->now_ns);
}

/* Holds up the same client or tenant only: requests under other limits go on. */
static void wait_for_limit(struct turn *turn, struct request *request, const struct limit_hit *hit)
{
        request->covered = false;
        if (hit->scope == LIMIT_OF_TENANT && !request->only_cached)
                pressure_tell(request, LIMIT_OF_TENANT, turn->now_ns);
        if (request->deadline_ns <= turn->now_ns)
                request_refuse_limit(request, hit);
        else
                quota_wait(request, turn->number, hit);
}

/* A limit holds the request up. Blocks that the limit counts already may still serve it. Otherwise idle
 * leases under the same limit are revoked, if that is enough. A request behind others may take only its own
 * client's blocks. */
enum relief { RELIEF_NONE, RELIEF_ENOUGH, RELIEF_SERVED };

static enum relief relieve(struct turn *turn, struct request *request, const struct limit_hit *hit)
{
        enum block_search_scope scope = hit->scope == LIMIT_OF_TENANT ? BLOCK_SEARCH_TENANTS
                                                                      : BLOCK_SEARCH_OWN;
        enum relief relief = RELIEF_NONE;

        if (request->in_group)
                return hit->why == LIMIT_WOULD_BE_PASSED &&
                                       revoke_idle_relieve(request, hit, &turn->budget)
                               ? RELIEF_ENOUGH
                               : RELIEF_NONE;
        if (hit->why != LIMIT_WOULD_BE_PASSED)
                return serve_from_own(turn, request) ? RELIEF_SERVED : RELIEF_NONE;
        turn->budget.back_too = request->deadline_ns <= turn->now_ns;
        if (serve_by(turn, request, block_search_find_charged(request, scope, &turn->budget)))
                relief = RELIEF_SERVED;
        else if (revoke_idle_relieve(request, hit, &turn->budget))
                relief = RELIEF_ENOUGH;
        turn->budget.back_too = false;
        return relief;
}

/* Whether the limits allow it to take the pool's memory. */
static bool is_within_limits(struct turn *turn, struct request *request)
{
        struct limit_hit hit;

        if (quota_is_hopeless(request, &hit)) {
                if (request->in_group || !serve_from_own(turn, request))
                        request_refuse_limit(request, &hit);
                return false;
        }
        if (!quota_holds(request, turn->number, &hit))
                return true;
        switch (relieve(turn, request, &hit)) {
        case RELIEF_ENOUGH:
                return true;
        case RELIEF_SERVED:
                return false;
        case RELIEF_NONE:
                break;
        }
        wait_for_limit(turn, request, &hit);
        return false;
}

static int driver_outcome(const struct pool *pool)
{
        return pool->driver_status == DRIVER_LOST ? -ENODEV : GPUMEM_E_STALLED;
}

/* The driver creates nothing now. A request does not wait for a lost device. */
static void wait_for_driver(const struct turn *turn, struct request *request)
{
        request->covered = false;
        if (turn->pool->driver_status == DRIVER_LOST || request->deadline_ns <= turn->now_ns)
                request_refuse(request, driver_outcome(turn->pool));
}

/* The request bypasses none and holds none up: others may have file descriptors left. */
static void wait_for_fd(struct turn *turn, struct request *request)
{
        turn->pool->policy->wants_fd = true;
        request->covered = fd_budget_recall(request, &turn->budget);
        if (!request->covered && must_rest(turn))
                return;
        request->refusal.of_blocks = !request->covered && request->deadline_ns <= turn->now_ns;
        if (request->refusal.of_blocks)
                serve_at_deadline(turn, request, GPUMEM_E_TOO_MANY);
}

/* Like one that waits for a file descriptor. */
static void wait_for_places(struct turn *turn, struct request *leader)
{
        turn->pool->policy->wants_fd = true;
        leader->covered = false;
        if (leader->deadline_ns <= turn->now_ns)
                serve_at_deadline(turn, leader, GPUMEM_E_TOO_MANY);
}

/* Counts as a bypass of requests that wait for room, like a new block: they could release the prewarmed
 * one. */
static bool serve_from_unowned(struct turn *turn, struct request *request)
{
        struct block *block;

        if (is_held(turn) || request->in_group || !backfill_is_allowed(&turn->backfill, request))
                return false;
        block = block_search_take_unowned(request);
        if (!block)
                return false;
        backfill_assign(&turn->backfill);
        backfill_count(turn->pool);
        waiting_queue_assign(&turn->pool->queue, block->bin->n_bytes);
        waiting_queue_give(block->holding, block->bin->n_bytes);
        return serve_by(turn, request, block);
}

static void serve_one(struct turn *turn, struct request *request)
{
        if (turn->pool->driver_status == DRIVER_LOST) {
                wait_for_driver(turn, request);
                return;
        }
        if (!is_within_limits(turn, request) || serve_from_what_there_is(turn, request))
                return;
        if (request->only_known) {
                request_refuse(request, GPUMEM_E_REFUSED);
                return;
        }
        if (request->n_all_bytes > turn->pool->settings.max_bytes)
                request_refuse(request, GPUMEM_E_TOO_LARGE);
        else if (serve_from_unowned(turn, request))
                return;
        else if (request->only_cached)
                request_refuse(request, GPUMEM_E_REFUSED);
        else if (turn->pool->driver_status != DRIVER_SERVES)
                wait_for_driver(turn, request);
        else if (!fd_budget_has_room(request->client->tenant, request->n_to_make))
                wait_for_fd(turn, request);
        else if (!tenant_may_part(request->client->tenant, request->n_to_make))
                wait_for_places(turn, request);
        else
                serve_fresh(turn, request);
}

/* Scans are divided among the requests: otherwise one that waits in vain would leave none for those behind
 * it. */
static void serve_with_budget(struct turn *turn, struct request *request)
{
        turn->budget = (struct scan_budget){.n_left = take_scans(turn, REVOKE_IDLE_SCANS_A_REQUEST),
                                            .asker = request->client,
                                            .request = request->number,
                                            .goes_on = turn->goes_on};
        serve_one(turn, request);
        turn->n_scans += turn->budget.n_left;
}

void admission_meet(struct turn *turn, struct request *request)
{
        struct policy *policy = turn->pool->policy;

        policy->line = request->client->line;
        if (request->state == REQUEST_WAITING)
                serve_with_budget(turn, request);
        else if (turn->pool->driver_status != DRIVER_SERVES)
                wait_for_driver(turn, request);
        policy->line = 0;
}

/* A cached block that a walk has passed by is of no use to any that waited then. So a request gets it at once, as it
 * would in a walk, if no other of its tenant waits: another walk through all that wait would take longer. */
static bool serve_at_once(struct request *request)
{
        struct scan_budget budget = {.n_left = AT_ONCE_SCANS, .asker = request->client};
        struct pool *pool = request->pool;
        struct limit_hit hit;
        struct block *block;

        if (request->client->tenant->n_waiting > 1 || pool->driver_status == DRIVER_LOST ||
            quota_is_passed_by(request, &hit))
                return false;
        block = block_search_find_cached(request, &budget);
        if (!block || block->cached_at > pool->n_passed_by)
                return false;
        pool->n_grants_from_cache++;
        request_grant(request, block);
        return true;
}

static int check_ask(struct client *client, const struct policy_ask *ask)
{
        const struct policy *policy = client->policy;

        if (ask->pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        if (ask->n_bytes == 0 || ask->n_bytes % BLOCK_UNIT)
                return GPUMEM_E_BAD_REQUEST;
        if (ask->n_bytes > policy->pools[ask->pool]->settings.max_bytes)
                return GPUMEM_E_TOO_LARGE;
        if (client->n_waiting >= CLIENT_MAX_WAITING || !tenant_may_wait(client->tenant))
                return GPUMEM_E_TOO_MANY;
        return policy->draining ? GPUMEM_E_SHUTTING_DOWN : 0;
}

struct pool *admission_ask(struct client *client, const struct policy_ask *ask, uint64_t now_ns)
{
        struct request *request;
        struct lease *lease = NULL;
        int r = request_new(client, ask, &request);

        if (r) {
                request_group_fail(client, ask, r);
                client_refuse_spare(client, ask, r);
                return NULL;
        }
        request->may_wait = request->deadline_ns > now_ns;
        r = check_ask(client, ask);
        if (!r)
                r = lease_new(client, ask->serial, &lease);
        if (!r && request_find(client, ask->serial)) {
                lease = lease_free(lease);
                r = GPUMEM_E_BAD_REQUEST;
        }
        if (ask->more || client->gathers)
                request = request_group_add(request, lease, ask, r);
        else if (r)
                request_refuse(request, r);
        else
                request_wait(request, client->policy->pools[ask->pool], lease);
        if (r || !request || (!request->in_group && serve_at_once(request)))
                return NULL;
        return request->pool;
}
