/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/scheduling/deadlock.h"

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/pool.h"

/* With more leases than this the search for idle ones is left out: there may be enough. */
#define SCANS_MAX 4096

/* One request alone waits for clients that do not wait. */
#define N_WAITING_MIN 2

static bool is_holder(const struct client *client, const struct pool *pool)
{
        return charge_sum_bytes(&client->sums[pool->id]) > 0;
}

void deadlock_begin(struct deadlock_look *look, struct policy *policy)
{
        *look = (struct deadlock_look){.number = ++policy->n_deadlock_looks,
                                       .n_least_bytes = UINT64_MAX};
}

void deadlock_meet(struct deadlock_look *look, struct request *request)
{
        struct client *client = request->client;

        if (!is_holder(client, request->pool) || request->pool->queue.walk.has_lost)
                return;
        if (request->state == REQUEST_CREATING || request->covered)
                look->any_moves = true;
        if (client->stuck != look->number)
                look->n_stuck++;
        client->stuck = look->number;
        if (!look->last || request->number > look->last->number)
                look->last = request;
        if (request->n_room_bytes < look->n_least_bytes)
                look->n_least_bytes = request->n_room_bytes;
}

static bool comes_back(const struct pool *pool)
{
        return pool->totals.incoming || pool->totals.mapped_lingering > pool->totals.timed_out;
}

static uint64_t there_bytes(const struct pool *pool)
{
        return pool_room(pool) + pool->totals.cached;
}

void deadlock_met_all(struct deadlock_look *look, const struct pool *pool)
{
        look->is_likely = pool->n_waiting >= N_WAITING_MIN &&
                          pool->driver_status == DRIVER_SERVES && !comes_back(pool) &&
                          look->n_stuck > 1 && look->n_stuck == pool->by_charge.n_sums &&
                          !look->any_moves && there_bytes(pool) < look->n_least_bytes;
}

static void scan(struct deadlock_look *look, const struct pool *pool, const struct block *block)
{
        if (block->pool != pool || !block_may_be_idle(block))
                return;
        if (++look->n_scans > SCANS_MAX)
                look->n_idle_bytes = look->n_least_bytes;
        else if (lease_is_idle(TAILQ_FIRST(&block->leases)))
                look->n_idle_bytes += block->bin->n_bytes;
}

static bool is_there(const struct deadlock_look *look, const struct pool *pool)
{
        return there_bytes(pool) + look->n_idle_bytes >= look->n_least_bytes;
}

bool deadlock_look_on(struct deadlock_look *look, const struct pool *pool, unsigned *n_left)
{
        const struct numbered *blocks = &pool->policy->blocks;
        const struct block *block;

        if (!look->is_likely || is_there(look, pool))
                return false;
        numbered_go_on(&look->place, *n_left);
        --*n_left;
        while ((block = numbered_next(blocks, &look->place)) && !is_there(look, pool)) {
                scan(look, pool, block);
                *n_left -= *n_left > 0;
        }
        return !numbered_is_over(blocks, &look->place) && !is_there(look, pool);
}

/* The last request of those that seem to be in a deadlock now. If the walk has lost one of them, the next one tells. */
static struct request *find_last(const struct deadlock_look *look, const struct pool *pool)
{
        return look->is_likely && !is_there(look, pool) && !pool->queue.walk.has_lost ? look->last
                                                                                      : NULL;
}

/* Increases with each block that is granted, returned, taken or released. */
static uint64_t n_moves(const struct pool *pool)
{
        return pool->n_cachings + pool->n_grants_from_cache + pool->n_creates + pool->n_releases +
               pool->n_backs + pool->n_revocations;
}

struct request *deadlock_find(const struct deadlock_look *look, struct pool *pool, uint64_t now_ns)
{
        struct request *last = find_last(look, pool);

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
