/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/heap_slabs.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <stdlib.h>

#include "client/heap/heap_blocks.h"

/* A slab, and the rest that is cut off before it. */
#define N_EXTENTS 2

static_assert(HEAP_BLOCK_UNIT % HEAP_CELL_BYTES == 0, "cells begin where blocks do");

static int make_block_cells(struct heap_block *block)
{
        if (!block->cells)
                block->cells = calloc(block->at.n_bytes / HEAP_CELL_BYTES, sizeof(*block->cells));
        return block->cells ? 0 : -ENOMEM;
}

/* Gives cells to all blocks between the two addresses. */
static int make_cells(const struct heap *heap, uint64_t address, uint64_t end)
{
        uint32_t place = heap_own_block(heap, address)->place;
        int r = 0;

        for (; place < heap->n_blocks && heap->blocks[place]->at.start < end && !r; place++)
                r = make_block_cells(heap->blocks[place]);
        return r;
}

static void set_cells(const struct heap *heap, const struct slab *slab, uint32_t value)
{
        uint64_t address = heap_address_of(heap, slab->start);
        uint64_t end = address + slab_n_units(slab) * HEAP_UNIT;

        for (; address < end; address += HEAP_CELL_BYTES) {
                const struct heap_block *block = heap_own_block(heap, address);

                block->cells[(address - block->at.start) / HEAP_CELL_BYTES] = (uint16_t)value;
        }
}

void heap_drop_cells(struct heap_block *block)
{
        free(block->cells);
        block->cells = NULL;
}

static uint32_t round_up(uint32_t unit)
{
        return (unit + HEAP_CELL_UNITS - 1) & ~(HEAP_CELL_UNITS - 1);
}

/* The largest slab that a hole holds, up to the wish. Where memory is short every small allocation asks this, so no
 * list is walked. */
static uint32_t find_free_extent(const struct heap *heap, uint32_t n_units, unsigned *n_places)
{
        for (; *n_places >= SLAB_PLACES_MIN; *n_places /= 2) {
                uint32_t free_extent = extents_find_first_free(
                        &heap->extents, *n_places * n_units + HEAP_CELL_UNITS - 1);

                if (free_extent)
                        return free_extent;
        }
        return 0;
}

bool heap_add_slab(struct heap *heap, uint32_t n_units)
{
        unsigned n_places = slabs_wish(&heap->slabs, n_units);
        uint32_t free_extent = find_free_extent(heap, n_units, &n_places), n_before, start,
                 before = 0, extent, index;
        uint64_t address;

        if (!free_extent || slabs_reserve(&heap->slabs) ||
            extents_reserve(&heap->extents, N_EXTENTS))
                return false;
        start = round_up(extents_at(&heap->extents, free_extent)->start);
        address = heap_address_of(heap, start);
        if (make_cells(heap, address, address + (uint64_t)n_places * n_units * HEAP_UNIT))
                return false;
        n_before = start - extents_at(&heap->extents, free_extent)->start;
        if (n_before)
                before = extents_take(&heap->extents, free_extent, n_before);
        extent = extents_take(&heap->extents, free_extent, n_places * n_units);
        if (before)
                (void)extents_give(&heap->extents, before);
        index = slabs_add(&heap->slabs, extent, start, n_units, n_places);
        set_cells(heap, slabs_at(&heap->slabs, index), index);
        return true;
}

uint32_t heap_end_slab(struct heap *heap, uint32_t index)
{
        set_cells(heap, slabs_at(&heap->slabs, index), 0);
        return extents_give(&heap->extents, slabs_remove(&heap->slabs, index));
}
