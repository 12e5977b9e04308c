/* What the bookkeeping of a heap must always be. For tests. */
#include "client/heap/heap.h"

#undef NDEBUG
#include <assert.h>

#include "client/heap/heap_blocks.h"
#include "client/heap/heap_small.h"

struct sums {
        struct holes_tally tally;
        uint64_t n_requested_bytes, n_allocated_bytes, n_reserved_bytes;
        uint32_t n_taken; /* pieces that are allocations */
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

/* All of its piece is the slab's, each address finds it, and no other allocation is told of there. */
static void check_slab(const struct heap *heap, uint32_t index, const struct piece *piece,
                       struct sums *sums)
{
        const struct slab *slab = slabs_at(&heap->slabs, index);

        assert(slab->start == piece->start && slab_n_units(slab) == piece->n_units);
        assert(slab->start % HEAP_CELL_UNITS == 0);
        assert(!slab_is_empty(slab));
        for (uint32_t unit = slab->start; slab_holds(slab, unit); unit++) {
                assert(slab_at(heap, unit) == index);
                assert(!starts_find(&heap->starts, unit));
        }
        for (unsigned i = 0; i < slab->n_places; i++) {
                assert(slab_place_of(slab, slab_unit_of(slab, i)) == i);
                assert(slab_place_of(slab, slab_unit_of(slab, i) + slab->n_units - 1) == i);
                if (!slab_is_free(slab, i))
                        add(sums, slab->n_units, slabs_slack(&heap->slabs, index, i));
        }
        sums->n_slabs++;
}

/* The taken pieces of a run are in the table, or are slabs, and add up to what the heap says. */
static void check_pieces(const struct heap *heap, uint32_t edge, struct sums *sums)
{
        for (uint32_t i = edge; i; i = holes_at(&heap->holes, i)->after) {
                const struct piece *piece = holes_at(&heap->holes, i);
                uint32_t slab;

                if (piece->state != PIECE_TAKEN) {
                        assert(piece->state == PIECE_EDGE ||
                               !starts_find(&heap->starts, piece->start));
                        continue;
                }
                slab = slab_at(heap, piece->start);
                if (slab) {
                        assert(heap->slabs.rests[slab].piece == i);
                        check_slab(heap, slab, piece, sums);
                        continue;
                }
                assert(starts_find(&heap->starts, piece->start) == i);
                add(sums, piece->n_units, piece->n_slack);
                sums->n_taken++;
        }
}

/* A cell that names a slab lies in it. */
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

        assert(sums->n_taken == heap->starts.n_entries);
        assert(sums->n_slabs == slabs_check(&heap->slabs));
        for (unsigned i = 1; i <= SLAB_UNITS_MAX; i++)
                assert(sums->n_live[i] == heap->slabs.n_live[i]);
        assert(sums->n_requested_bytes == heap->n_requested_bytes);
        assert(sums->n_allocated_bytes == heap->n_allocated_bytes);
        assert(sums->n_reserved_bytes == heap->n_reserved_bytes);
        assert(sums->tally.n_run_units * HEAP_UNIT == heap->n_reserved_bytes);
        assert(sums->tally.n_hole_units * HEAP_UNIT ==
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
                holes_tally_run(&heap->holes, edge, &sums.tally);
                check_pieces(heap, edge, &sums);
        }
        holes_check(&heap->holes, &sums.tally);
        check_sums(heap, &sums);
}
