/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/deadlock.h"

#include "daemon/policy/accounting/charge_ranking.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/pool.h"

/* With more leases than this the search for idle ones is left out: there may be enough. */
#define SCANS_MAX 4096

/* One request alone waits for clients that do not wait. */
#define N_WAITING_MIN 2

static bool is_holder(const struct client *client, const struct pool *pool)
{
        return client->sums[pool->id].n_bytes > 0;
}

static void note(struct request *request, uint64_t look)
{
        if (request->state == REQUEST_CREATING || request->covered)
                request->client->moving = look;
        else
                request->client->stuck = look;
}

static void note_all(struct pool *pool, uint64_t look)
{
        struct holding *holding;
        struct request *request;

        TAILQ_FOREACH (holding, &pool->queue.holdings, queue_link) {
                TAILQ_FOREACH (request, &holding->waiting, queue_link)
                        note(request, look);
        }
}

static bool are_all_stuck(const struct pool *pool, uint64_t look)
{
        const struct charge_sum *sum = charge_ranking_first(&pool->ranking);

        for (; sum; sum = charge_ranking_next(&pool->ranking, sum)) {
                if (sum->client->stuck != look || sum->client->moving == look)
                        return false;
        }
        return pool->ranking.n_sums > 1;
}

static uint64_t idle_bytes(const struct pool *pool)
{
        const struct block *block;
        unsigned n_scans = 0;
        uint64_t n_bytes = 0;

        TAILQ_FOREACH (block, &pool->leased, pool_age_link) {
                if (++n_scans > SCANS_MAX)
                        return UINT64_MAX;
                if (lease_is_idle(TAILQ_FIRST(&block->leases)))
                        n_bytes += block->bin->n_bytes;
        }
        return n_bytes;
}

/* Whether that many bytes of the pool are unused. */
static bool is_there(const struct pool *pool, uint64_t n_bytes)
{
        uint64_t n_there_bytes = pool_room(pool) + pool->totals.cached, n_idle_bytes;

        if (n_there_bytes >= n_bytes)
                return true;
        n_idle_bytes = idle_bytes(pool);
        return n_idle_bytes >= n_bytes - n_there_bytes;
}

static bool comes_back(const struct pool *pool)
{
        return pool->totals.incoming || pool->totals.mapped_lingering > pool->totals.timed_out;
}

/* The last request of those that seem to be in a deadlock now. */
static struct request *find_last(struct pool *pool)
{
        uint64_t n_least_bytes = UINT64_MAX, look = ++pool->policy->n_deadlock_looks;
        struct request *last = NULL, *request;
        struct holding *holding;

        if (pool->n_waiting < N_WAITING_MIN || pool->driver_status != DRIVER_SERVES ||
            comes_back(pool))
                return NULL;
        note_all(pool, look);
        if (!are_all_stuck(pool, look))
                return NULL;
        TAILQ_FOREACH (holding, &pool->queue.holdings, queue_link) {
                TAILQ_FOREACH (request, &holding->waiting, queue_link) {
                        if (!is_holder(request->client, pool))
                                continue;
                        if (!last || request->number > last->number)
                                last = request;
                        if (request->n_room_bytes < n_least_bytes)
                                n_least_bytes = request->n_room_bytes;
                }
        }
        return is_there(pool, n_least_bytes) ? NULL : last;
}

/* Increases with each block that is granted, returned, taken or released. */
static uint64_t n_moves(const struct pool *pool)
{
        return pool->n_cachings + pool->n_grants_from_cache + pool->n_creates + pool->n_releases +
               pool->n_backs + pool->n_revocations;
}

struct request *deadlock_find(struct pool *pool, uint64_t now_ns)
{
        struct request *last = find_last(pool);

        if (!last) {
                pool->stuck_since_ns = 0;
                return NULL;
        }
        if (!pool->stuck_since_ns || pool->stuck_moves != n_moves(pool)) {
                pool->stuck_since_ns = now_ns;
                pool->stuck_moves = n_moves(pool);
        }
        if (now_ns < pool->stuck_since_ns + DEADLOCK_NS)
                return NULL;
        /* After a refusal, its client has as much time to return memory. */
        pool->stuck_since_ns = now_ns;
        return last;
}

uint64_t deadlock_next(const struct pool *pool)
{
        bool is_any = pool->stuck_since_ns && pool->n_waiting >= N_WAITING_MIN;

        return is_any ? pool->stuck_since_ns + DEADLOCK_NS : UINT64_MAX;
}
