/* SPDX-License-Identifier: Apache-2.0 */
#include "client/blocks/pool_state.h"

#include "base/clock.h"
#include "client/heap/heap.h"

int32_t pool_place(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_DEVICE ? pool->memory.ordinal : (int32_t)pool->row.place;
}

enum heap_runs pool_runs(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_DEVICE && !pool->memory.is_ipc ? HEAP_JOINED
                                                                          : HEAP_SPLIT;
}

void pool_count_block(struct pool *pool, uint64_t n_bytes)
{
        pool->n_blocks++;
        pool->n_reserved_bytes += n_bytes;
        if (pool->n_reserved_bytes > pool->n_reserved_peak_bytes)
                pool->n_reserved_peak_bytes = pool->n_reserved_bytes;
}

void pool_discount_block(struct pool *pool, uint64_t n_bytes)
{
        pool->n_blocks--;
        pool->n_reserved_bytes -= n_bytes;
}

void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes)
{
        pool_count_block(pool, n_block_bytes);
        pool->n_alone++;
        pool->n_alone_rest_bytes += n_block_bytes - heap_round_up(n_requested_bytes);
        counters_count(&pool->counters, counters_mine(&pool->counters), COUNTER_MISS,
                       n_requested_bytes, heap_round_up(n_requested_bytes));
}

void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes)
{
        pool_discount_block(pool, n_block_bytes);
        pool->n_alone--;
        pool->n_alone_rest_bytes -= n_block_bytes - heap_round_up(n_requested_bytes);
        counters_discount(counters_mine(&pool->counters), n_requested_bytes,
                          heap_round_up(n_requested_bytes));
}

uint64_t pool_now_us(const struct pool *pool)
{
        return (pool->n_blockers ? pool->blocked_at_us : clock_now_us()) - pool->n_blocked_us;
}

void pool_stop_clock(struct pool *pool)
{
        pthread_mutex_lock(&pool->lock);
        if (pool->n_blockers++ == 0)
                pool->blocked_at_us = clock_now_us();
        pthread_mutex_unlock(&pool->lock);
}

void pool_start_clock(struct pool *pool)
{
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_blockers == 0)
                pool->n_blocked_us += clock_now_us() - pool->blocked_at_us;
        pthread_mutex_unlock(&pool->lock);
}
