/* SPDX-License-Identifier: Apache-2.0 */
/* The slabs of a heap: where their memory comes from, and how an address finds its slab. Internal to heap.c, which
 * has the lock.
 *
 * A slab is an extent of the heap. It begins at a multiple of HEAP_CELL_UNITS from its block's start. For each such
 * multiple the block has a cell, which names the slab that begins in it or reaches into it. Behind a slab's end, the
 * rest of its last cell is for other extents. */
#pragma once

#include "client/heap/heap.h"

#define HEAP_CELL_UNITS UINT32_C(32)
#define HEAP_CELL_BYTES (HEAP_CELL_UNITS * HEAP_UNIT)

/* Makes a slab for n_units out of a hole, if enough such allocations are live and a hole is large enough; returns
 * whether it did. */
bool heap_add_slab(struct heap *heap, uint32_t n_units);

/* Makes an empty slab a hole, or part of one. Returns the hole. */
uint32_t heap_end_slab(struct heap *heap, uint32_t index);

/* The slab that holds the unit at that address of the block; 0: none. */
static inline uint32_t heap_slab_at(const struct heap *heap, const struct heap_block *block,
                                    uint64_t address)
{
        uint32_t index;

        if (!block->cells)
                return 0;
        index = block->cells[(address - block->at.start) / HEAP_CELL_BYTES];
        if (!index || !slab_holds(slabs_at(&heap->slabs, index), heap_unit_of(heap, address)))
                return 0;
        return index;
}

/* Frees the block's cells: nothing is allocated in it, or its heap ends. */
void heap_drop_cells(struct heap_block *block);
