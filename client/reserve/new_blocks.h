/* SPDX-License-Identifier: Apache-2.0 */
/* Where to lease the memory that a heap lacks for a request, and in blocks of what size.
 *
 * The trade-off: a block is returned only when all of it is empty, so a large block that holds one small allocation
 * is waste. A lease costs two hundred microseconds, so many small blocks cost time. A heap's blocks are joined where
 * they touch, which softens the trade-off: an allocation needs no block of its own size, only memory in one run.
 * Therefore
 *   - only the missing bytes are leased: behind, before or between holes of the heap and idle blocks of others, at the
 *     place where they are fewest (window.h);
 *   - in blocks of about 1/1024 of the pool's peak (see budget.h) or 1/8 of the request, rounded up to one of two
 *     sizes a doubling. So a request costs some eight leases at most, and a stray allocation holds little memory.
 *     Blocks are not smaller than 4 MiB if that much is missing, up to 64 MiB while nothing is held yet, and not
 *     larger than 1 GiB. For a large request they are 1/128 of the peak at least. Larger ones
 *     become empty too rarely to move;
 *   - with a little more than is missing, 1/128 of the peak, if the budget has room for it, so that a heap that grows by
 *     small steps does not lease at each;
 *   - in the arena's part for requests of that size, so that small allocations do not stand in large blocks.
 * bench/RESULTS.md has what other sizes gave.
 *
 * Where runs are kept apart (HEAP_SPLIT) a block is one run: the request rounded up to 2 MiB, but at least 1/8 of
 * what the heap has, up to 64 MiB, so that a heap grows with O(log n) leases.
 *
 * Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

#define NEW_BLOCKS_PARTS 64

/* Requests below the one size are small, those from the other on are large. */
#define NEW_BLOCKS_SMALL (2 * MIB)
#define NEW_BLOCKS_LARGE (64 * MIB)

struct new_blocks {
        unsigned n_parts;
        struct arena_block parts[NEW_BLOCKS_PARTS]; /* by address: blocks to lease there */
        uint64_t n_bytes;                           /* of all parts */
        uint64_t start, end;                        /* what will be one hole then */
        uint64_t needed_end;                        /* the request needs no more of it */
        uint64_t n_block_bytes;                     /* the parts are not larger */
};

struct new_blocks_terms {
        uint64_t n_peak_bytes;  /* the peak of the heap's pool */
        uint64_t n_block_bytes; /* blocks have about this size, or more */
        uint64_t n_spare_bytes; /* what may be leased above the need */
        uint64_t n_least_bytes; /* at least so much is leased, whatever is spare; 0: no matter */
        uint64_t n_look;        /* see window.h; 0: nothing is taken from others */
        unsigned n_parts;       /* of a pledge, which is for requests of all sizes; 0: it is none */
};

/* Plans for a request of n_bytes that fits no hole of the heap. No parts: nothing is missing there. GPUMEM_E_TOO_LARGE, -ENOMEM: no room in the arena. */
int new_blocks_plan(const struct heap *heap, uint64_t n_bytes, const struct new_blocks_terms *terms,
                    struct new_blocks *ret_new_blocks);
