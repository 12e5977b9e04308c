/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request costs least: a stretch of addresses of holes that the heap has, of idle blocks that it may take from
 * others, and of gaps, where nothing stands and blocks must be leased or moved to. So free memory of the right sum serves
 * a request, though it is spread over several heaps, as long as it stands side by side.
 *
 * One walk over the addresses: a window slides from block to block, so the cost is linear in the blocks of the arena.
 * Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

struct window {
        uint64_t start, end; /* of what will be one hole; covers the request */
        uint64_t n_missing;  /* bytes of gaps in it, in whole granules */
        unsigned n_gaps;
};

/* A window with more gaps is not worth its leases; one with fewer can always be cut. */
#define WINDOW_GAPS_MAX 16

/* To whole granules of blocks. */
static inline uint64_t window_round_up(uint64_t n_bytes)
{
        return (n_bytes + HEAP_BLOCK_UNIT - 1) & ~(HEAP_BLOCK_UNIT - 1);
}

/* Finds the best window for n_bytes in a heap whose runs are joined. Blocks of others count if that look has marked them
 * (heap_block.n_look). A window that lacks bytes
 * begins with memory in `part`. False: there is none but a new run. */
bool window_find(const struct heap *heap, uint64_t n_look, const struct arena_range *part,
                 uint64_t n_bytes, struct window *ret_window);
