/* SPDX-License-Identifier: Apache-2.0 */
/* The board: memory that one client and the daemon share, made and sealed by the daemon.
 *
 * To the daemon it is untrusted input: it loads each number once and never shows more than it leased.
 * Layout: the header, then one struct board_pool a pool, in the order of the pools, which the client
 * writes; then one word a slot, which says what the lease of that slot may be used for. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_VERSION 1

struct board_header {
        uint32_t version;
        uint32_t n_pools;
        uint64_t n_bytes;
        uint32_t n_slots;
        uint32_t reserved[11];
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

/* A lease word: the lease's id in the upper 56 bits, its state in the lower 8; 0: the slot is free.
 * Each step has one side that makes it:
 *
 *   0 -> BUSY           daemon, before it tells of the lease
 *   BUSY -> IDLE        client: nothing in the block is used, by no work either; it stays mapped
 *   IDLE -> BUSY        client: has it back
 *   IDLE -> REVOKED     daemon: the block is another's, or nobody's; the client unmaps it in its own
 *                       time, without touching it before, and says UNMAPPED
 *   BUSY, REVOKED -> 0  daemon: the client has said RETURN, or UNMAPPED; the slot is free
 *
 * The steps out of IDLE are compare-and-swaps of the whole word, so one side wins; ids are never used
 * twice, so none succeeds on a later lease. The daemon tries once and never waits: its own table says
 * which lease a slot is for, and a word that does not say IDLE for it is not idle. */
enum board_state {
        BOARD_BUSY = 1,
        BOARD_IDLE = 2,
        BOARD_REVOKED = 3,
};

static inline uint64_t board_word(uint64_t lease, enum board_state state)
{
        return lease << 8 | state;
}

/* One step out of a state that the word may not be in any more. */
static inline bool board_step(_Atomic uint64_t *word, uint64_t lease, enum board_state from,
                              enum board_state to)
{
        uint64_t expected = board_word(lease, from);

        return atomic_compare_exchange_strong_explicit(word, &expected, board_word(lease, to),
                                                       memory_order_acq_rel, memory_order_acquire);
}

static inline bool board_is(const _Atomic uint64_t *word, uint64_t lease, enum board_state state)
{
        return atomic_load_explicit(word, memory_order_acquire) == board_word(lease, state);
}

static inline uint64_t board_bytes(uint32_t n_pools, uint32_t n_slots)
{
        return sizeof(struct board_header) + n_pools * (uint64_t)sizeof(struct board_pool) +
               n_slots * (uint64_t)sizeof(uint64_t);
}

/* The words, by slot. */
static inline _Atomic uint64_t *board_words(void *board, uint32_t n_pools)
{
        struct board_pool *pools = (struct board_pool *)((struct board_header *)board + 1);

        return (_Atomic uint64_t *)(pools + n_pools);
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
