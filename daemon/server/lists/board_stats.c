/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/board_stats.h"

#include "proto/board.h"

static uint64_t at_most(uint64_t reported, uint64_t limit)
{
        return reported < limit ? reported : limit;
}

/* The limit of a pool may have been lowered after the peak was reached, so the capacity is the bound. */
static uint64_t peak_of(uint64_t reported, uint64_t now, uint64_t n_capacity_bytes)
{
        uint64_t peak = at_most(reported, n_capacity_bytes);

        return peak > now ? peak : now;
}

static bool reports(const struct session *session)
{
        return session->board.counts && session->state == SESSION_READY;
}

/* The client can write to its board at any time: each number is read once, and is limited to a possible
 * value. */
struct board_stats board_stats_read(struct session *session, uint32_t pool)
{
        uint64_t charged = client_charged(session->client, pool);
        uint64_t capacity = session->server->pools[pool].row.n_capacity_bytes;
        const struct board_pool *board;
        struct board_sums sums;
        struct board_stats stats = {0};

        if (!reports(session))
                return stats;
        board = board_pool(session->board.file.bytes, pool);
        sums = board_sum(board);
        stats.allocated = at_most(sums.allocated, charged);
        stats.requested = at_most(sums.requested, stats.allocated);
        stats.allocated_peak = peak_of(atomic_load(&board->allocated_peak), stats.allocated,
                                       capacity);
        stats.requested_peak = peak_of(atomic_load(&board->requested_peak), stats.requested,
                                       capacity);
        stats.hits = sums.hits;
        stats.misses = sums.misses;
        return stats;
}

#define CACHE_LINE 64

void board_stats_prefetch(const struct session *session)
{
        if (!reports(session))
                return;
        client_prefetch_charges(session->client);
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++) {
                const char *board = (const char *)board_pool(session->board.file.bytes, pool);

                for (size_t offset = 0; offset < sizeof(struct board_pool); offset += CACHE_LINE)
                        __builtin_prefetch(board + offset);
        }
}

void board_stats_add(uint64_t *sum, uint64_t n)
{
        *sum = n < INT64_MAX - at_most(*sum, INT64_MAX) ? *sum + n : INT64_MAX;
}
