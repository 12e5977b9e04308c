/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/reservation.h"

#include "base/err.h"
#include "base/size.h"
#include "client/blocks/addresses.h"
#include "client/blocks/lease.h"
#include "client/pool/idle_marking.h"
#include "client/pool/pool.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/last_error.h"
#include "client/runtime/service_thread.h"
#include "gpumem.h"

/* How often the daemon may revoke idle blocks of a plan. */
#define TRIES_MAX 16

/* The blocks that must be leased. */
struct parts {
        unsigned n;
        struct leased *leased[NEW_BLOCKS_PARTS];
};

/* The caller has the lock. */
static void end_reservation(struct pool *pool, struct leased_list *list)
{
        heap_set_end_pledge(&pool->heap_set);
        empty_blocks_set_floors(pool);
        retained_take_revoked(pool, RETAINED_DROP_EXCESS, list);
}

/* The caller has the lock. */
static int find_addresses(struct pool *pool, const struct new_blocks *new_blocks,
                          struct parts *parts)
{
        int r = 0;

        for (unsigned i = 0; i < new_blocks->n_parts && !r; i++) {
                r = leased_reserve(pool, new_blocks->parts[i].start, new_blocks->parts[i].n_bytes,
                                   &parts->leased[i]);
                if (!r)
                        parts->n++;
        }
        return r;
}

/* Plans again if the daemon has revoked a block of the run. The caller has the lock. */
static int plan(struct pool *pool, uint64_t n_bytes, enum heap_set_pledge kind,
                struct leased_list *list, struct parts *parts)
{
        struct new_blocks new_blocks;
        int r = 1;

        for (unsigned i = 0; r == 1 && i < TRIES_MAX; i++) {
                retained_take_revoked(pool, RETAINED_DROP_EXCESS, list);
                r = heap_set_plan_pledge(&pool->heap_set, n_bytes, kind, &new_blocks);
                if (r == -ENOMEM && addresses_widen(pool, n_bytes))
                        r = heap_set_plan_pledge(&pool->heap_set, n_bytes, kind, &new_blocks);
                if (!r)
                        r = heap_set_pledge(&pool->heap_set, new_blocks.start, new_blocks.end);
        }
        if (r)
                return r == 1 ? GPUMEM_E_REFUSED : r;
        return find_addresses(pool, &new_blocks, parts);
}

/* The caller has the lock. */
static int install(struct pool *pool, struct parts *parts)
{
        int r = 0;

        while (parts->n && !r) {
                struct leased *leased = parts->leased[parts->n - 1];

                /* The client has left that connection, and its board will be gone. */
                if (leased->connection != pool->binding.connection)
                        leased->block.word = NULL;
                r = heap_set_add_pledged(&pool->heap_set, &leased->block);
                if (r)
                        break;
                leased->is_unused = false;
                heap_set_count(&pool->heap_set, leased_bytes(leased));
                pool_count_block(pool, leased_bytes(leased));
                parts->n--;
        }
        return r;
}

/* Gives up records of which none was leased. */
static void cancel(struct pool *pool, struct parts *parts)
{
        while (parts->n)
                leased_cancel(pool, parts->leased[--parts->n]);
}

static int lease_and_install(struct pool *pool, struct parts *parts, uint32_t wait_ms)
{
        int r = leased_obtain_together(pool, parts->leased, parts->n, wait_ms);

        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        r = install(pool, parts);
        pthread_mutex_unlock(&pool->lock);
        while (parts->n)
                leased_free(pool, parts->leased[--parts->n]);
        return r;
}

static int attempt(struct pool *pool, uint64_t n_bytes, enum heap_set_pledge kind, uint32_t wait_ms)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        struct parts parts = {.n = 0};
        int r;

        pthread_mutex_lock(&pool->lock);
        r = addresses_open(pool);
        if (!r)
                r = plan(pool, n_bytes, kind, &list, &parts);
        pool->n_waiting += wait_ms > 0;
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        if (wait_ms)
                service_thread_nudge(pool->service);
        if (r)
                cancel(pool, &parts);
        else if (parts.n)
                r = lease_and_install(pool, &parts, wait_ms);
        pthread_mutex_lock(&pool->lock);
        pool->n_waiting -= wait_ms > 0;
        if (r)
                end_reservation(pool, &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        return r;
}

/* Ends the present reservation, and puts all empty blocks where the plan finds them. */
static void begin_again(struct pool *pool)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        bool had_one;

        pthread_mutex_lock(&pool->lock);
        had_one = pool->heap_set.n_pledged_bytes > 0;
        end_reservation(pool, &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        if (idle_marking_is_on(pool))
                (void)idle_marking_look(pool, IDLE_MARKING_URGENT);
        else if (had_one)
                empty_blocks_to_budget(pool);
        /* Other clients may take what is idle now, if the service thread marks it. */
        if (had_one)
                (void)service_thread_wake(pool->service);
}

static int check(const struct pool *pool, uint64_t n_bytes)
{
        if (pool_runs(pool) == HEAP_JOINED)
                return pool_check_size(pool, n_bytes);
        last_error_set(GPUMEM_E_UNSUPPORTED,
                       "gpumemd serves this device as CUDA IPC handles: adjacent blocks cannot be "
                       "joined there, so nothing can be reserved");
        return GPUMEM_E_UNSUPPORTED;
}

/* The caller has `reserving`, so that no thread ends the reservation that another one waits for. */
static int reserve(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms)
{
        uint64_t n_block_bytes;
        int r = check(pool, n_bytes);

        if (!r && size_round_up(n_bytes, HEAP_BLOCK_UNIT, &n_block_bytes))
                r = GPUMEM_E_TOO_LARGE;
        if (r)
                return r;
        pool_stop_clock(pool);
        r = attempt(pool, n_block_bytes, HEAP_SET_PLEDGE_IDLE, 0);
        pool_start_clock(pool);
        if (!pool_is_refusal(r))
                return r;
        /* The process gives up unused memory before it waits or fails. */
        pool_note_pressure(pool, n_bytes);
        empty_blocks_all(pool);
        return attempt(pool, n_block_bytes, HEAP_SET_PLEDGE_NEW, wait_ms);
}

int pool_reserve(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms)
{
        int r = 0;

        pthread_mutex_lock(&pool->reserving);
        begin_again(pool);
        if (n_bytes)
                r = reserve(pool, n_bytes, wait_ms);
        pthread_mutex_unlock(&pool->reserving);
        return r;
}
