#include "daemon/server/lists/claims.h"

#include "proto/board.h"

static uint64_t at_most(uint64_t claimed, uint64_t limit)
{
        return claimed < limit ? claimed : limit;
}

/* A pool's limit may have been lowered since, so the capacity bounds it. */
static uint64_t peak_of(uint64_t claimed, uint64_t now, uint64_t n_capacity_bytes)
{
        uint64_t peak = at_most(claimed, n_capacity_bytes);

        return peak > now ? peak : now;
}

/* The board is its client's to write: each number is read once, and bytes are no more than can be. */
struct claims claims_read(const struct session *session, uint32_t pool)
{
        uint64_t charged = client_charged(session->client, pool);
        uint64_t capacity = session->server->pools[pool].row.n_capacity_bytes;
        const struct board_pool *board;
        struct board_sums sums;
        struct claims claims = {0};

        if (session->state != SESSION_READY)
                return claims;
        board = board_pool(session->board, pool);
        sums = board_sum(board);
        claims.allocated = at_most(sums.allocated, charged);
        claims.requested = at_most(sums.requested, claims.allocated);
        claims.allocated_peak = peak_of(atomic_load(&board->allocated_peak), claims.allocated,
                                        capacity);
        claims.requested_peak = peak_of(atomic_load(&board->requested_peak), claims.requested,
                                        capacity);
        claims.hits = sums.hits;
        claims.misses = sums.misses;
        return claims;
}

void claims_add(uint64_t *sum, uint64_t n)
{
        *sum = n < INT64_MAX - at_most(*sum, INT64_MAX) ? *sum + n : INT64_MAX;
}
