/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of a heap's bookkeeping. For tests. */
#include "client/heap/heap.h"

#undef NDEBUG
#include <assert.h>

#include "client/heap/heap_blocks.h"
#include "client/heap/heap_slabs.h"

struct sums {
        struct extents_tally tally;
        uint64_t n_requested_bytes, n_allocated_bytes, n_reserved_bytes;
        uint32_t n_taken; /* extents that are allocations */
        uint32_t n_slabs;
        uint32_t n_live[SLAB_UNITS_MAX + 1];
};

static void add(struct sums *sums, uint32_t n_units, uint32_t n_slack)
{
        assert(n_slack < HEAP_UNIT);
        sums->n_requested_bytes += n_units * HEAP_UNIT - n_slack;
        sums->n_allocated_bytes += n_units * HEAP_UNIT;
        if (n_units <= SLAB_UNITS_MAX)
                sums->n_live[n_units]++;
}

static uint32_t slab_at(const struct heap *heap, uint32_t unit)
{
        uint64_t address = heap_address_of(heap, unit);

        return heap_slab_at(heap, heap_own_block(heap, address), address);
}

/* The slab fills its extent, each of its addresses finds it, and the table has no entry there. */
static void check_slab(const struct heap *heap, uint32_t index, const struct extent *extent,
                       struct sums *sums)
{
        const struct slab *slab = slabs_at(&heap->slabs, index);

        assert(slab->start == extent->start && slab_n_units(slab) == extent->n_units);
        assert(slab->start % HEAP_CELL_UNITS == 0);
        assert(!slab_is_empty(slab));
        for (uint32_t unit = slab->start; slab_holds(slab, unit); unit++) {
                assert(slab_at(heap, unit) == index);
                assert(!alloc_table_find(&heap->alloc_table, unit));
        }
        for (unsigned i = 0; i < slab->n_places; i++) {
                assert(slab_place_of(slab, slab_unit_of(slab, i)) == i);
                assert(slab_place_of(slab, slab_unit_of(slab, i) + slab->n_units - 1) == i);
                if (!slab_is_free(slab, i))
                        add(sums, slab->n_units, slabs_slack(&heap->slabs, index, i));
        }
        sums->n_slabs++;
}

/* Each taken extent of a run is in the table or is a slab, and they add up to the heap's sums. */
static void check_extents(const struct heap *heap, uint32_t edge, struct sums *sums)
{
        for (uint32_t i = edge; i; i = extents_at(&heap->extents, i)->after) {
                const struct extent *extent = extents_at(&heap->extents, i);
                uint32_t slab;

                if (extent->state != EXTENT_TAKEN) {
                        assert(extent->state == EXTENT_EDGE ||
                               !alloc_table_find(&heap->alloc_table, extent->start));
                        continue;
                }
                slab = slab_at(heap, extent->start);
                if (slab) {
                        assert(heap->slabs.rests[slab].extent == i);
                        check_slab(heap, slab, extent, sums);
                        continue;
                }
                assert(alloc_table_find(&heap->alloc_table, extent->start) == i);
                add(sums, extent->n_units, extent->n_slack);
                sums->n_taken++;
        }
}

/* The first address of each cell lies in the slab that the cell names. */
static void check_cells(const struct heap *heap, const struct heap_block *block)
{
        for (uint64_t i = 0; block->cells && i < block->at.n_bytes / HEAP_CELL_BYTES; i++) {
                uint64_t address = block->at.start + i * HEAP_CELL_BYTES;

                assert(!block->cells[i] || heap_slab_at(heap, block, address) == block->cells[i]);
        }
}

static void check_sums(const struct heap *heap, const struct sums *sums)
{
        uint64_t n_free_bytes = slabs_free_units(&heap->slabs) * HEAP_UNIT;

        assert(sums->n_taken == heap->alloc_table.n_entries);
        assert(sums->n_slabs == slabs_check(&heap->slabs));
        for (unsigned i = 1; i <= SLAB_UNITS_MAX; i++)
                assert(sums->n_live[i] == heap->slabs.n_live[i]);
        assert(sums->n_requested_bytes == heap->n_requested_bytes);
        assert(sums->n_allocated_bytes == heap->n_allocated_bytes);
        assert(sums->n_reserved_bytes == heap->n_reserved_bytes);
        assert(sums->tally.n_run_units * HEAP_UNIT == heap->n_reserved_bytes);
        assert(sums->tally.n_free_units * HEAP_UNIT ==
               heap->n_reserved_bytes - sums->n_allocated_bytes - n_free_bytes);
}

void heap_check(const struct heap *heap)
{
        struct sums sums = {.n_taken = 0};

        for (uint32_t i = 0; i < heap->n_blocks; i++) {
                uint32_t edge = heap->blocks[i]->edges.before;

                heap_check_block(heap, i);
                check_cells(heap, heap->blocks[i]);
                sums.n_reserved_bytes += heap->blocks[i]->at.n_bytes;
                if (!edge)
                        continue;
                extents_tally_run(&heap->extents, edge, &sums.tally);
                check_extents(heap, edge, &sums);
        }
        extents_check(&heap->extents, &sums.tally);
        check_sums(heap, &sums);
}
