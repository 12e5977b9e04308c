/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/retained.h"

#include "base/clock.h"
#include "client/connection/reconnect.h"
#include "client/mapping/host_register.h"
#include "client/reserve/free_run.h"
#include "client/runtime/events.h"
#include "client/runtime/service_thread.h"

void retained_init(struct retained *retained)
{
        LIST_INIT(&retained->blocks);
        atomic_init(&retained->is_recalled, false);
}

static bool is_bounded(const struct leased *leased)
{
        return leased->mapping == MAPPING_PLAIN;
}

bool retained_add(struct pool *pool, struct leased *leased, uint64_t now_us)
{
        if (is_bounded(leased) && (leased->connection != pool->binding.connection ||
                                   !service_thread_is_running(pool->service)))
                return false;
        leased->retained_at_us = now_us;
        LIST_INSERT_HEAD(&pool->retained.blocks, leased, link);
        service_thread_nudge(pool->service);
        return true;
}

static void take_out(struct leased *leased)
{
        LIST_REMOVE(leased, link);
        leased->retained_at_us = 0;
}

/* Counts the newest first, so that the oldest are beyond the limits. */
void retained_take_out(struct pool *pool, enum retained_drop which, uint64_t now_us,
                       struct leased_list *list)
{
        struct leased *leased, *next;
        uint64_t n_bytes = 0;
        unsigned n_blocks = 0;

        for (leased = LIST_FIRST(&pool->retained.blocks); leased; leased = next) {
                bool excess;

                next = LIST_NEXT(leased, link);
                if (!is_bounded(leased) && which != RETAINED_DROP_ALL)
                        continue;
                n_bytes += leased_bytes(leased);
                excess = ++n_blocks > RETAINED_BLOCKS_MAX ||
                         n_bytes > pool->row.n_capacity_bytes / RETAINED_PART ||
                         now_us - leased->retained_at_us >= RETAINED_US ||
                         leased->connection != pool->binding.connection;
                if (which == RETAINED_DROP_EXCESS && !excess)
                        continue;
                take_out(leased);
                LIST_INSERT_HEAD(list, leased, link);
        }
}

void retained_take_ended(struct pool *pool, struct leased_list *list)
{
        struct leased *leased, *next;

        for (leased = LIST_FIRST(&pool->retained.blocks); leased; leased = next) {
                next = LIST_NEXT(leased, link);
                if (!host_register_is_over(&pool->memory, leased->context,
                                           leased->block.context_id))
                        continue;
                take_out(leased);
                LIST_INSERT_HEAD(list, leased, link);
        }
}

uint64_t retained_next_us(const struct pool *pool)
{
        const struct leased *leased;
        uint64_t at_us = UINT64_MAX;

        LIST_FOREACH (leased, &pool->retained.blocks, link) {
                if (is_bounded(leased))
                        at_us = leased->retained_at_us + RETAINED_US;
        }
        return at_us;
}

bool retained_has_any(const struct pool *pool)
{
        return !LIST_EMPTY(&pool->retained.blocks);
}

/* The retained block there, if the present daemon may lease it again; or NULL. */
static const struct leased *retained_at(const struct pool *pool, uint64_t address)
{
        const struct leased *leased = leased_of(arena_find(pool->heap_set.arena, address));

        return leased && leased->retained_at_us && leased->connection == pool->binding.connection
                       ? leased
                       : NULL;
}

/* The run from this block upwards; where runs are kept apart, the block alone. */
static struct free_run free_run_from(const struct pool *pool, const struct heap *heap,
                                     const struct leased *first, uint64_t n_bytes)
{
        uint64_t start = leased_address(first), end = start + leased_bytes(first);
        const struct leased *leased;

        while (heap->runs == HEAP_JOINED && (leased = retained_at(pool, end)))
                end += leased_bytes(leased);
        return free_run_of(heap, start, end, n_bytes);
}

static bool find_free_run(const struct pool *pool, struct heap *heap, uint64_t n_bytes,
                          struct free_run *ret_run)
{
        struct free_run best = {.start = 0};
        const struct leased *leased;

        spin_lock(&heap->lock);
        LIST_FOREACH (leased, &pool->retained.blocks, link) {
                struct free_run run;

                if (leased->connection != pool->binding.connection ||
                    leased->block.context_id != heap->context_id ||
                    (heap->runs == HEAP_JOINED && retained_at(pool, leased_address(leased) - 1)))
                        continue;
                run = free_run_from(pool, heap, leased, n_bytes);
                if (run.is_enough && (!best.start || free_run_is_better(&run, &best)))
                        best = run;
        }
        spin_unlock(&heap->lock);
        *ret_run = best;
        return best.start != 0;
}

static bool cut(const struct pool *pool, struct free_run rest, uint64_t n_bytes,
                struct new_blocks *new_blocks)
{
        const struct heap_block *block;

        *new_blocks = (struct new_blocks){.start = rest.start, .end = rest.end};
        while ((block = free_run_next(&rest, pool->heap_set.arena, n_bytes))) {
                if (new_blocks->n_parts == NEW_BLOCKS_PARTS)
                        return false;
                new_blocks->parts[new_blocks->n_parts++] = block->at;
                new_blocks->n_bytes += block->at.n_bytes;
        }
        return new_blocks->n_parts > 0;
}

/* A new block would be cut to size. A retained one may be larger by an eighth, or by one block of the usual size. */
static bool is_good(const struct pool *pool, uint64_t n_bytes, const struct new_blocks *new_blocks)
{
        uint64_t n_common = budget_block_bytes(&pool->heap_set.budget);
        uint64_t n_spare = n_bytes / 8 > n_common ? n_bytes / 8 : n_common;

        return new_blocks->n_bytes < n_bytes + n_spare + HEAP_BLOCK_UNIT;
}

bool retained_plan(const struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                   struct new_blocks *ret_new_blocks)
{
        struct free_run run;

        return find_free_run(pool, &heap->heap, n_bytes, &run) &&
               cut(pool, run, n_bytes, ret_new_blocks) && is_good(pool, n_bytes, ret_new_blocks);
}

struct leased *retained_take(struct pool *pool, uint64_t number, uint64_t connection)
{
        struct leased *leased;

        LIST_FOREACH (leased, &pool->retained.blocks, link) {
                if (leased->number == number && leased->connection == connection) {
                        take_out(leased);
                        return leased;
                }
        }
        return NULL;
}

static void note_revoked(struct pool *pool, uint64_t n_bytes)
{
        struct gpumem_event event = {.kind = GPUMEM_EVENT_REVOKED,
                                     .memory = pool->memory.kind,
                                     .place = pool_place(pool),
                                     .n_bytes = n_bytes};

        if (n_bytes)
                events_note(pool->reconnector->events, &event);
}

/* A NOTICE may be about blocks that are swept here. */
void retained_take_revoked(struct pool *pool, enum retained_drop drop, struct leased_list *list)
{
        bool is_recalled = atomic_exchange(&pool->retained.is_recalled, false);
        uint64_t now_us = clock_now_us();
        struct heap_block *block;
        uint64_t n_bytes = 0;

        if (!pool->heap_set.arena)
                return;
        idle_list_sweep(&pool->heap_set.idle_list);
        while ((block = idle_list_next_revoked(&pool->heap_set.idle_list))) {
                struct leased *leased = CONTAINER_OF(block, struct leased, block);

                pool->heap_set.n_reserved_bytes -= block->at.n_bytes;
                pool_discount_block(pool, block->at.n_bytes);
                pool->limit.n_leased_bytes -= block->at.n_bytes;
                leased->is_revoked = true;
                /* A block without a word was lost with its connection, which is another event. */
                n_bytes += block->word ? block->at.n_bytes : 0;
                if (!retained_add(pool, leased, now_us))
                        LIST_INSERT_HEAD(list, leased, link);
        }
        note_revoked(pool, n_bytes);
        if (is_recalled && drop == RETAINED_DROP_EXCESS)
                drop = RETAINED_DROP_FREELY;
        retained_take_out(pool, drop, now_us, list);
}
