/* SPDX-License-Identifier: Apache-2.0 */
/* The board: memory that one client and the daemon share. The daemon makes the file; the client gives it its pages, and seals it
 * so that they stay (base/memfd.h).
 *
 * To the daemon it is untrusted input: the daemon loads each number once, and never shows more than it has leased.
 * Layout: BOARD_HEADER_BYTES that are not used; then one struct board_pool for each pool, in the order of the pools, which the client writes;
 * then one word for each slot, which tells how the slot's lease may be used. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_HEADER_BYTES 64

/* A client's counters for one pool are split into lanes of a cache line each, so that threads do not write to the same
 * line. The client's numbers are the sums of the lanes. One lane may be below 0, as an int64_t: a thread frees what
 * another one has allocated. */
#define BOARD_LANES 8

struct board_lane {
        _Atomic uint64_t requested; /* bytes */
        _Atomic uint64_t allocated; /* bytes */
        _Atomic uint64_t hits;
        _Atomic uint64_t misses;
        uint64_t reserved[4];
};

struct board_pool {
        _Atomic uint64_t requested_peak; /* of the sum */
        _Atomic uint64_t allocated_peak;
        uint64_t reserved[6];
        struct board_lane lanes[BOARD_LANES];
};

/* A lease word: the lease's id in the upper 56 bits, its state in the lower 8; 0: the slot is free. Each step is made
 * by one side:
 *
 *    0 -> BUSY           daemon, before it tells the client of the lease
 *    BUSY -> IDLE        client: nothing uses the block, no GPU work either; it stays mapped
 *    IDLE -> BUSY        client: it uses the block again
 *    IDLE -> REVOKED     daemon: it gives the block to another client, or releases it; the client must not touch
 *                        the block, unmaps it in its own time, and says UNMAPPED
 *    BUSY, REVOKED -> 0  daemon: the client has said RETURN, or UNMAPPED; the slot is free
 *
 * The steps out of IDLE are compare-and-swaps of the whole word, so one side wins. Ids are never reused, so no step
 * succeeds on a later lease. The daemon tries once and never waits: its own table tells which lease a slot is for,
 * and only a word that says IDLE for that lease is idle. */
enum board_state {
        BOARD_BUSY = 1,
        BOARD_IDLE = 2,
        BOARD_REVOKED = 3,
};

static inline uint64_t board_word(uint64_t lease, enum board_state state)
{
        return lease << 8 | state;
}

/* Tries one step. It fails if the word is no longer in the state `from`. */
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
        return BOARD_HEADER_BYTES + n_pools * (uint64_t)sizeof(struct board_pool) +
               n_slots * (uint64_t)sizeof(uint64_t);
}

static inline struct board_pool *board_pool(void *board, uint32_t pool)
{
        void *first = (char *)board + BOARD_HEADER_BYTES;

        return (struct board_pool *)first + pool;
}

/* The words, by slot. */
static inline _Atomic uint64_t *board_words(void *board, uint32_t n_pools)
{
        return (_Atomic uint64_t *)board_pool(board, n_pools);
}

/* The sums of a pool's counters, as the client has written them, modulo 2^64. Bytes are not below 0: a free may be seen
 * without the allocation that another thread counted before. */
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
        if ((int64_t)sums.requested < 0)
                sums.requested = 0;
        if ((int64_t)sums.allocated < 0)
                sums.allocated = 0;
        return sums;
}
