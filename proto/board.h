/* The board: memory that one client and the daemon share, made and sealed by the daemon.
 *
 * The client writes, the daemon reads. To the daemon it is untrusted input: it loads each number
 * once and never shows more than it leased. Layout: the header, then one struct board_counters a
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

/* One cache line: a client's counters for one pool. Bytes, or counts for hits and misses. */
struct board_counters {
        _Atomic uint64_t requested;
        _Atomic uint64_t requested_peak;
        _Atomic uint64_t allocated;
        _Atomic uint64_t allocated_peak;
        _Atomic uint64_t active;         /* allocated, or freed and waiting for GPU work */
        _Atomic uint64_t inactive_split; /* holes in blocks that are not empty */
        _Atomic uint64_t hits;
        _Atomic uint64_t misses;
};

static inline uint64_t board_bytes(uint32_t n_pools)
{
        return sizeof(struct board_header) + n_pools * (uint64_t)sizeof(struct board_counters);
}

static inline struct board_counters *board_counters(void *board, uint32_t pool)
{
        return (struct board_counters *)((struct board_header *)board + 1) + pool;
}
