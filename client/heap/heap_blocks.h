/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a heap: which there are, which touch, where their runs begin. For heap.c, whose lock the
 * caller has; what others call of it is in heap.h. */
#pragma once

#include "client/heap/heap.h"

static inline uint64_t heap_block_end(const struct heap_block *block)
{
        return block->at.start + block->at.n_bytes;
}

/* The block that has the heap's memory at that address. */
struct heap_block *heap_own_block(const struct heap *heap, uint64_t address);

/* The first extent of the run that a block of the heap is in, which is an edge. */
uint32_t heap_first_edge(const struct heap *heap, const struct heap_block *block);

/* Asserts that the block at this place, in the order of addresses, fits those around it. */
void heap_check_block(const struct heap *heap, uint32_t place);
