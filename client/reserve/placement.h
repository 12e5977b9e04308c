/* SPDX-License-Identifier: Apache-2.0 */
/* Where to lease the memory that a heap lacks for a request, and in blocks of what size.
 *
 * The trade-off: a block is returned only when all of it is empty, so a large block that holds one small allocation
 * is waste. A lease costs two hundred microseconds, so many small blocks cost time. A heap's blocks are joined where
 * they touch, which softens the trade-off: an allocation needs no block of its own size, only memory in one run.
 * Therefore
 *   - only the missing bytes are leased: behind, before or between holes of the heap, at the place where they are
 *     fewest;
 *   - in blocks of about 1/1024 of the pool's peak (or more, see budget.h) or 1/8 of the request, rounded up to one of
 *     two sizes a doubling. So a request costs some eight leases at most, and a stray allocation holds little memory.
 *     Blocks are not smaller than 4 MiB if that much is missing, and up to 64 MiB while nothing is held yet;
 *   - with a little more than is missing, 1/128 of the peak, if the budget has room for it, so that a heap that grows by
 *     small steps does not lease at each.
 * bench/RESULTS.md has what other sizes gave.
 *
 * Where runs are kept apart (HEAP_SPLIT) a block is one run: the request rounded up to 2 MiB, but at least 1/8 of
 * what the heap has, up to 64 MiB, so that a heap grows with O(log n) leases.
 *
 * Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

#define PLACEMENT_PARTS 64

struct placement {
        unsigned n_parts;
        struct arena_block parts[PLACEMENT_PARTS]; /* by address: blocks to lease there */
        uint64_t n_bytes;                          /* of all parts */
        uint64_t start, end;                       /* what will be one hole then */
};

struct placement_terms {
        uint64_t n_peak_bytes;  /* the peak of the heap's pool */
        uint64_t n_block_bytes; /* blocks have about this size, or more */
        uint64_t n_spare_bytes; /* what may be leased above the need */
        unsigned n_parts;       /* how many blocks a large request is cut into; 0: 8 */
};

/* Plans for a request of n_bytes that fits no hole of the heap. GPUMEM_E_TOO_LARGE, -ENOMEM: no room in the arena. */
int placement_plan(const struct heap *heap, uint64_t n_bytes, const struct placement_terms *terms,
                   struct placement *ret_placement);
