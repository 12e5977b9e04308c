#include "client/heap.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap_blocks.h"
#include "gpumem.h"

static_assert(offsetof(struct heap, lock) == 0, "heap_init passes it over");

void heap_init(struct heap *heap, const struct arena *arena, enum heap_runs runs)
{
        /* Not the lock, which others may look at. */
        memset((char *)heap + sizeof(heap->lock), 0, sizeof(*heap) - sizeof(heap->lock));
        holes_init(&heap->holes);
        heap->arena = arena;
        heap->base = arena_start(arena);
        heap->runs = runs;
        heap->epoch = heap->n_done_epochs = 1;
}

void heap_deinit(struct heap *heap)
{
        for (uint32_t i = 0; i < heap->n_blocks; i++)
                heap->blocks[i]->heap = NULL;
        free(heap->blocks);
        heap->blocks = NULL;
        heap->n_blocks = heap->n_block_room = 0;
        starts_deinit(&heap->starts);
        holes_deinit(&heap->holes);
}

static void count_allocated(struct heap *heap, uint64_t n_more_bytes)
{
        uint64_t n_bytes = atomic_load_explicit(&heap->n_allocated_bytes, memory_order_relaxed);

        atomic_store_explicit(&heap->n_allocated_bytes, n_bytes + n_more_bytes,
                              memory_order_relaxed);
}

int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address)
{
        struct piece *piece;
        uint32_t n_units, hole, taken;
        int r;

        if (n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (n_bytes > (UINT32_MAX - HEAP_BLOCK_UNIT / HEAP_UNIT) * HEAP_UNIT)
                return GPUMEM_E_TOO_LARGE;
        n_units = (uint32_t)((n_bytes + HEAP_UNIT - 1) / HEAP_UNIT);
        hole = holes_find(&heap->holes, n_units);
        if (!hole)
                return GPUMEM_E_REFUSED;
        r = holes_reserve(&heap->holes, 1);
        if (!r)
                r = starts_reserve(&heap->starts);
        if (r)
                return r;
        taken = holes_take(&heap->holes, hole, n_units);
        piece = holes_at(&heap->holes, taken);
        piece->n_slack = (n_units * HEAP_UNIT - n_bytes) % HEAP_UNIT;
        starts_add(&heap->starts, piece->start, taken);
        heap->n_requested_bytes += n_bytes;
        count_allocated(heap, n_units * HEAP_UNIT);
        *ret_address = heap_address_of(heap, piece->start);
        return 0;
}

/* Ends the entry of the allocation that starts there; its piece, or 0: there is none. */
static ALWAYS_INLINE uint32_t find_given(struct heap *heap, uint64_t address,
                                         struct heap_freed *ret_freed)
{
        const struct piece *piece;
        uint32_t index;

        /* Far from the arena another address has the same unit. */
        if (address % HEAP_UNIT || address - heap->base >= HEAP_ARENA_MAX)
                return 0;
        index = starts_remove(&heap->starts, heap_unit_of(heap, address));
        if (!index)
                return 0;
        piece = holes_at(&heap->holes, index);
        ret_freed->n_allocated_bytes = piece->n_units * HEAP_UNIT;
        ret_freed->n_requested_bytes = ret_freed->n_allocated_bytes - piece->n_slack;
        return index;
}

static ALWAYS_INLINE void give(struct heap *heap, uint32_t index, struct heap_freed *freed)
{
        index = holes_give(&heap->holes, index);
        freed->n_hole_bytes = holes_at(&heap->holes, index)->n_units * HEAP_UNIT;
        count_allocated(heap, -freed->n_allocated_bytes);
        heap->n_requested_bytes -= freed->n_requested_bytes;
}

/* Most allocations lie in one block. */
static void date(const struct heap *heap, uint64_t address, uint64_t n_bytes)
{
        uint64_t end = address + n_bytes;

        while (address < end) {
                struct heap_block *block = (struct heap_block *)arena_find(heap->arena, address);

                block->epoch = heap->epoch;
                address = heap_block_end(block);
        }
}

/* Blocks are dated before the hole is made: nothing in that waits for the records of blocks, which come
 * from memory meanwhile. */
static ALWAYS_INLINE int end(struct heap *heap, uint64_t address, bool is_idle,
                             struct heap_freed *ret_freed)
{
        struct heap_freed freed;
        uint32_t index = find_given(heap, address, &freed);

        if (!index)
                return GPUMEM_E_NOT_OURS;
        if (!is_idle) {
                date(heap, address, freed.n_allocated_bytes);
                heap->n_freed_bytes += freed.n_allocated_bytes;
        }
        give(heap, index, &freed);
        *ret_freed = freed;
        return 0;
}

int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed)
{
        return end(heap, address, false, ret_freed);
}

int heap_free_idle(struct heap *heap, uint64_t address, struct heap_freed *ret_freed)
{
        return end(heap, address, true, ret_freed);
}

uint64_t heap_new_epoch(struct heap *heap)
{
        heap->n_freed_bytes = 0;
        return heap->epoch++;
}

/* The piece at an address of that block. */
static uint32_t piece_at(const struct heap *heap, const struct heap_block *block, uint64_t address)
{
        uint32_t unit = heap_unit_of(heap, address);
        uint32_t index = heap_first_edge(heap, block);
        const struct piece *piece = holes_at(&heap->holes, index);

        while (!piece->n_units || unit - piece->start >= piece->n_units) {
                index = piece->after;
                piece = holes_at(&heap->holes, index);
        }
        return index;
}

int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation)
{
        const struct heap_block *block = (const struct heap_block *)arena_find(heap->arena,
                                                                               address);
        const struct piece *piece;
        uint32_t index = 0;

        if (!block || block->heap != heap)
                return GPUMEM_E_NOT_OURS;
        if (address % HEAP_UNIT == 0)
                index = starts_find(&heap->starts, heap_unit_of(heap, address));
        if (!index)
                index = piece_at(heap, block, address);
        piece = holes_at(&heap->holes, index);
        if (piece->state != PIECE_TAKEN)
                return GPUMEM_E_NOT_OURS;
        *ret_allocation = (struct heap_allocation){.start = heap_address_of(heap, piece->start),
                                                   .n_requested_bytes = piece->n_units * HEAP_UNIT -
                                                                        piece->n_slack,
                                                   .n_allocated_bytes = piece->n_units * HEAP_UNIT};
        return 0;
}

/* The taken pieces of a run are in the table, and add up to what the heap says. */
static void check_pieces(const struct heap *heap, uint32_t edge, uint64_t *n_requested_bytes,
                         uint64_t *n_allocated_bytes, uint32_t *n_taken)
{
        for (uint32_t i = edge; i; i = holes_at(&heap->holes, i)->after) {
                const struct piece *piece = holes_at(&heap->holes, i);

                if (piece->state != PIECE_TAKEN) {
                        assert(piece->state == PIECE_EDGE ||
                               !starts_find(&heap->starts, piece->start));
                        continue;
                }
                assert(starts_find(&heap->starts, piece->start) == i);
                assert(piece->n_slack < HEAP_UNIT);
                *n_requested_bytes += piece->n_units * HEAP_UNIT - piece->n_slack;
                *n_allocated_bytes += piece->n_units * HEAP_UNIT;
                (*n_taken)++;
        }
}

void heap_check(const struct heap *heap)
{
        uint64_t n_requested_bytes = 0, n_allocated_bytes = 0, n_reserved_bytes = 0;
        struct holes_tally tally = {0};
        uint32_t n_taken = 0;

        for (uint32_t i = 0; i < heap->n_blocks; i++) {
                uint32_t edge = heap->blocks[i]->edges.before;

                heap_check_block(heap, i);
                n_reserved_bytes += heap->blocks[i]->at.n_bytes;
                if (!edge)
                        continue;
                holes_tally_run(&heap->holes, edge, &tally);
                check_pieces(heap, edge, &n_requested_bytes, &n_allocated_bytes, &n_taken);
        }
        holes_check(&heap->holes, &tally);
        assert(n_taken == heap->starts.n_entries);
        assert(n_requested_bytes == heap->n_requested_bytes);
        assert(n_allocated_bytes == heap->n_allocated_bytes);
        assert(n_reserved_bytes == heap->n_reserved_bytes);
        assert(tally.n_run_units * HEAP_UNIT == heap->n_reserved_bytes);
        assert(tally.n_hole_units * HEAP_UNIT == heap->n_reserved_bytes - n_allocated_bytes);
}
