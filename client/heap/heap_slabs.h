/* SPDX-License-Identifier: Apache-2.0 */
/* The slabs of a heap: where memory for them comes from, and how an address finds its slab. For heap.c, whose lock the
 * caller has.
 *
 * A slab is an extent of the heap that begins at a multiple of HEAP_CELL_UNITS from its block's start; the block has
 * a cell for so many units, which says whose slab begins in it or reaches into it. Behind the end of a slab
 * the rest of its last cell is for other extents. */
#pragma once

#include "client/heap/heap.h"

#define HEAP_CELL_UNITS UINT32_C(32)
#define HEAP_CELL_BYTES (HEAP_CELL_UNITS * HEAP_UNIT)

/* Makes a slab for n_units out of a hole, if there is one that is large enough and enough are live; says whether. */
bool heap_add_slab(struct heap *heap, uint32_t n_units);

/* An empty slab is a hole, or part of one, from now on. Returns that. */
uint32_t heap_end_slab(struct heap *heap, uint32_t index);

/* The slab that holds the unit at that address of the block; 0: none does. */
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

/* Forgets the block's cells: nothing is allocated in it, or nobody asks any more. */
void heap_drop_cells(struct heap_block *block);
