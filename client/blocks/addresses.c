/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/addresses.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/size.h"

/* The pool has too few addresses and may get more later. So the arena's span has as many as a heap can number: a
 * quarter of them above the present ones, the rest below, where most mappings are made. */
static int open_short(uint64_t start, uint64_t n_bytes, struct arena **ret_arena)
{
        uint64_t end = start + n_bytes + (HEAP_ARENA_MAX / 4 & ~(ARENA_GRANULE - 1));
        struct arena *arena = NULL;
        int r = arena_new_span(end > HEAP_ARENA_MAX ? end - HEAP_ARENA_MAX : ARENA_GRANULE,
                               HEAP_ARENA_MAX, &arena);

        if (!r)
                r = arena_add(arena, start, n_bytes);
        if (r) {
                arena_free(arena);
                return r;
        }
        *ret_arena = arena;
        return 0;
}

/* Reserves n_bytes of addresses and makes their arena; both or neither. */
static int open_arena(const struct pool *pool, uint64_t n_bytes, uint64_t n_wanted_bytes,
                      uint64_t *ret_start, struct arena **ret_arena)
{
        uint64_t start;
        int r = mapping_reserve(&pool->memory, n_bytes, &start);

        if (r)
                return r;
        r = n_bytes == n_wanted_bytes ? arena_new(start, n_bytes, ret_arena)
                                      : open_short(start, n_bytes, ret_arena);
        if (r)
                mapping_unreserve(&pool->memory, start, n_bytes);
        else
                *ret_start = start;
        return r;
}

static uint64_t wanted_bytes(const struct pool *pool)
{
        return pool->memory.is_ipc ? HEAP_ARENA_MAX
                                   : heap_set_arena_bytes(pool->row.n_capacity_bytes);
}

static uint64_t half(uint64_t n_bytes)
{
        return n_bytes / 2 & ~(ARENA_GRANULE - 1);
}

/* Takes fewer addresses if the system has fewer at present, such as by a limit of the process; see addresses_widen. */
int addresses_open(struct pool *pool)
{
        uint64_t n_wanted_bytes = wanted_bytes(pool), n_bytes = n_wanted_bytes, start;
        struct arena *arena = NULL;
        int r;

        if (pool->arena)
                return 0;
        if (!n_bytes)
                return -EPROTO;
        while ((r = open_arena(pool, n_bytes, n_wanted_bytes, &start, &arena)) != 0) {
                n_bytes = half(n_bytes);
                if (n_bytes < ARENA_GRANULE)
                        return r;
        }
        pool->arena_start = start;
        pool->n_arena_bytes = n_bytes;
        heap_set_open(&pool->heap_set, arena, pool_runs(pool));
        pool->arena = arena;
        return 0;
}

/* Addresses outside the arena's span are of no use. */
static bool add_addresses(struct pool *pool, uint64_t n_bytes)
{
        struct pool_addresses *more = reallocarray(pool->more, pool->n_more + 1, sizeof(*more));
        uint64_t start;

        if (!more)
                return false;
        pool->more = more;
        if (mapping_reserve(&pool->memory, n_bytes, &start))
                return false;
        if (arena_add(pool->arena, start, n_bytes)) {
                mapping_unreserve(&pool->memory, start, n_bytes);
                return false;
        }
        more[pool->n_more++] = (struct pool_addresses){start, n_bytes};
        pool->n_arena_bytes += n_bytes;
        return true;
}

bool addresses_widen(struct pool *pool, uint64_t n_bytes)
{
        uint64_t n_wanted_bytes = wanted_bytes(pool), n_least_bytes, n_more_bytes;

        if (!pool->arena || pool->memory.is_ipc || pool->n_arena_bytes >= n_wanted_bytes ||
            size_round_up(n_bytes, ARENA_GRANULE, &n_least_bytes))
                return false;
        /* Where it touches another range, it loses a granule at that end. */
        n_least_bytes += 2 * ARENA_GRANULE;
        n_more_bytes = size_larger(n_wanted_bytes - pool->n_arena_bytes, n_least_bytes);
        while (!add_addresses(pool, n_more_bytes)) {
                if (n_more_bytes == n_least_bytes)
                        return false;
                n_more_bytes = size_larger(half(n_more_bytes), n_least_bytes);
        }
        log_debug("%s: %llu bytes of addresses more", pool->row.name,
                  (unsigned long long)n_more_bytes);
        return true;
}

static bool has_stuck(const struct pool *pool, uint64_t start, uint64_t n_bytes)
{
        const struct leased *leased;

        LIST_FOREACH (leased, &pool->stuck_leased, link) {
                if (leased_address(leased) - start < n_bytes)
                        return true;
        }
        return false;
}

/* What the driver still has registered there must not be unmapped: it would take what the process has there next for
 * that memory. */
static void release(const struct pool *pool, uint64_t start, uint64_t n_bytes)
{
        if (!has_stuck(pool, start, n_bytes))
                mapping_unreserve(&pool->memory, start, n_bytes);
}

void addresses_close(struct pool *pool)
{
        if (!pool->arena)
                return;
        pool->arena = arena_free(pool->arena);
        for (unsigned i = 0; i < pool->n_more; i++) {
                release(pool, pool->more[i].start, pool->more[i].n_bytes);
                pool->n_arena_bytes -= pool->more[i].n_bytes;
        }
        release(pool, pool->arena_start, pool->n_arena_bytes);
        free(pool->more);
}
