/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a heap: which there are, which are adjacent, and where their runs begin. Internal to heap.c, which
 * has the lock; the functions for others are in heap.h. */
#pragma once

#include "client/heap/heap.h"

static inline uint64_t heap_block_end(const struct heap_block *block)
{
        return block->at.start + block->at.n_bytes;
}

/* The block that holds the heap's memory at that address. */
struct heap_block *heap_own_block(const struct heap *heap, uint64_t address);

/* The first edge of the run that a block of the heap is in. */
uint32_t heap_first_edge(const struct heap *heap, const struct heap_block *block);

/* Asserts that the block at this index of `blocks` fits its neighbours. */
void heap_check_block(const struct heap *heap, uint32_t place);
