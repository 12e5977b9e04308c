/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory comes from that a heap lacks for a request, and in blocks of what size.
 *
 * The trade. A block goes back only when all of it is empty, so a large block that one small allocation lives in is
 * waste; a lease costs two hundred microseconds, so a small block is time. A heap's blocks are joined where they touch,
 * which takes the edge off it: an allocation needs no block of its own size, only memory in one run. Therefore
 *   - only what is missing is leased: behind (or before, or between) holes that the heap has, at the
 *     place where that is least;
 *   - in blocks of about 1/1024 of the pool's peak (or more, see budget.h) or 1/8 of the request, rounded up
 *     to one of two sizes a doubling, so that a request costs some eight leases at most and a stray
 *     allocation holds little of the memory; but not in smaller ones than 4 MiB, where that much is
 *     missing, and in blocks of up to 64 MiB where nothing is held yet;
 *   - a little more than is missing, 1/128 of the peak, where the budget has room for it, so that a
 *     heap that grows by small steps does not lease at each.
 * bench/RESULTS.md has what other sizes gave.
 *
 * Where runs are kept apart (HEAP_SPLIT) a block is one run: the request rounded up to 2 MiB, but at least 1/8 of what
 * the heap has, up to 64 MiB, so that a heap grows with O(log n) leases.
 *
 * Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

#define PLACEMENT_PARTS 64

struct placement {
        unsigned n_parts;
        struct arena_block parts[PLACEMENT_PARTS]; /* by address: blocks to lease and put there */
        uint64_t n_bytes;                          /* of all parts */
        uint64_t start, end;                       /* what is to be one hole then */
};

struct placement_terms {
        uint64_t n_peak_bytes;  /* what the heap's pool allocates at most */
        uint64_t n_block_bytes; /* blocks are about as large, or larger */
        uint64_t n_spare_bytes; /* what may be leased above the need */
        unsigned n_parts;       /* blocks that a large request is cut into; 0: 8 */
};

/* For a request of n_bytes that no hole of the heap held. GPUMEM_E_TOO_LARGE, -ENOMEM: no room in the arena. */
int placement_plan(const struct heap *heap, uint64_t n_bytes, const struct placement_terms *terms,
                   struct placement *ret_placement);
