/* The board: memory that one client and the daemon share, made and sealed by the daemon.
 *
 * The client writes, the daemon reads. To the daemon it is untrusted input: it loads each number
 * once and never shows more than it leased. Layout: the header, then one struct board_pool a
 * pool, in the order of the pools. Lease words will stand behind them. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_VERSION 1

struct board_header {
        uint32_t version;
        uint32_t n_pools;
        uint64_t n_bytes;
        uint64_t reserved[6];
};

/* A client's counters for one pool stand in lanes of a cache line each, so that threads that allocate
 * for different streams do not write to the same one: what it has is the sum of them. */
#define BOARD_LANES 8

struct board_lane {
        _Atomic uint64_t requested; /* bytes */
        _Atomic uint64_t allocated; /* bytes */
        _Atomic uint64_t hits;
        _Atomic uint64_t misses;
        uint64_t reserved[4];
};

struct board_pool {
        _Atomic uint64_t requested_peak; /* of the sums */
        _Atomic uint64_t allocated_peak;
        uint64_t reserved[6];
        struct board_lane lanes[BOARD_LANES];
};

static inline uint64_t board_bytes(uint32_t n_pools)
{
        return sizeof(struct board_header) + n_pools * (uint64_t)sizeof(struct board_pool);
}

static inline struct board_pool *board_pool(void *board, uint32_t pool)
{
        return (struct board_pool *)((struct board_header *)board + 1) + pool;
}

/* A pool's counters, added up: whatever the client has written, modulo 2^64. */
struct board_sums {
        uint64_t requested;
        uint64_t allocated;
        uint64_t hits;
        uint64_t misses;
};

static inline struct board_sums board_sum(const struct board_pool *pool)
{
        struct board_sums sums = {0};

        for (unsigned i = 0; i < BOARD_LANES; i++) {
                const struct board_lane *lane = &pool->lanes[i];

                sums.requested += atomic_load_explicit(&lane->requested, memory_order_relaxed);
                sums.allocated += atomic_load_explicit(&lane->allocated, memory_order_relaxed);
                sums.hits += atomic_load_explicit(&lane->hits, memory_order_relaxed);
                sums.misses += atomic_load_explicit(&lane->misses, memory_order_relaxed);
        }
        return sums;
}
