/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/free_run.h"

#include <stddef.h>

#include "base/err.h"

static uint64_t free_bytes(const struct heap *heap, uint32_t extent)
{
        const struct extent *free_extent = extents_at(&heap->extents, extent);

        return free_extent->state == EXTENT_FREE ? free_extent->n_units * HEAP_UNIT : 0;
}

/* The bytes of the heap's hole that ends at the address, or that begins there. */
static uint64_t bytes_below(const struct heap *heap, uint64_t address)
{
        const struct heap_block *block = heap_block_at(heap->arena, address - 1);

        if (heap->runs == HEAP_SPLIT || !block || block->heap != heap || !block->edges.after)
                return 0;
        return free_bytes(heap, extents_at(&heap->extents, block->edges.after)->before);
}

static uint64_t bytes_above(const struct heap *heap, uint64_t address)
{
        const struct heap_block *block = heap_block_at(heap->arena, address);

        if (heap->runs == HEAP_SPLIT || !block || block->heap != heap || !block->edges.before)
                return 0;
        return free_bytes(heap, extents_at(&heap->extents, block->edges.before)->after);
}

struct free_run free_run_of(const struct heap *heap, uint64_t start, uint64_t end)
{
        return (struct free_run){.start = start,
                                 .end = end,
                                 .n_below_bytes = bytes_below(heap, start),
                                 .n_above_bytes = bytes_above(heap, end)};
}

struct heap_block *free_run_next(struct free_run *run, const struct arena *arena, uint64_t n_bytes)
{
        bool is_from_above = run->n_above_bytes > run->n_below_bytes;
        uint64_t n_own = is_from_above ? run->n_above_bytes : run->n_below_bytes;
        struct heap_block *block;

        if (run->start == run->end || n_own + run->n_taken_bytes >= n_bytes)
                return NULL;
        block = heap_block_at(arena, is_from_above ? run->end - 1 : run->start);
        if (is_from_above)
                run->end = block->at.start;
        else
                run->start += block->at.n_bytes;
        run->n_taken_bytes += block->at.n_bytes;
        return block;
}
