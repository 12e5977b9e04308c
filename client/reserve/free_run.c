/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/free_run.h"

#include <stddef.h>

#include "base/err.h"

/* What may be taken beyond a request, and counts as no waste: a part of it, or the smallest block. */
#define LITTLE_PART  8
#define LITTLE_BYTES HEAP_BLOCK_UNIT

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

/* Where runs are kept apart, a block is not shut in by others. */
static bool is_open(const struct heap *heap, uint64_t address)
{
        return heap->runs == HEAP_JOINED && !arena_find(heap->arena, address);
}

static bool begins_above(const struct free_run *run)
{
        if (run->n_above_bytes || run->n_below_bytes)
                return run->n_above_bytes > run->n_below_bytes;
        return run->is_open_above && !run->is_open_below;
}

/* Of the hole that an allocation would continue. */
static uint64_t own_bytes(const struct free_run *run)
{
        return begins_above(run) ? run->n_above_bytes : run->n_below_bytes;
}

struct heap_block *free_run_next(struct free_run *run, const struct arena *arena, uint64_t n_bytes)
{
        bool is_from_above = begins_above(run);
        struct heap_block *block;

        if (run->start == run->end || own_bytes(run) + run->n_taken_bytes >= n_bytes)
                return NULL;
        block = heap_block_at(arena, is_from_above ? run->end - 1 : run->start);
        if (is_from_above)
                run->end = block->at.start;
        else
                run->start += block->at.n_bytes;
        run->n_taken_bytes += block->at.n_bytes;
        return block;
}

static uint64_t wasted(struct free_run run, const struct arena *arena, uint64_t n_bytes)
{
        uint64_t n_little = n_bytes / LITTLE_PART > LITTLE_BYTES ? n_bytes / LITTLE_PART
                                                                 : LITTLE_BYTES;

        while (free_run_next(&run, arena, n_bytes))
                ;
        return run.n_taken_bytes > n_bytes + n_little ? run.n_taken_bytes - n_bytes : 0;
}

struct free_run free_run_of(const struct heap *heap, uint64_t start, uint64_t end, uint64_t n_bytes)
{
        struct free_run run = {.start = start,
                               .end = end,
                               .n_below_bytes = bytes_below(heap, start),
                               .n_above_bytes = bytes_above(heap, end),
                               .is_open_below = is_open(heap, start - 1),
                               .is_open_above = is_open(heap, end)};

        run.is_enough = end - start + run.n_below_bytes + run.n_above_bytes >= n_bytes;
        if (run.is_enough)
                run.n_wasted_bytes = wasted(run, heap->arena, n_bytes);
        return run;
}

bool free_run_is_better(const struct free_run *run, const struct free_run *than)
{
        uint64_t n_own = own_bytes(run), n_than = own_bytes(than);
        bool has_end = run->is_open_below || run->is_open_above;

        if (run->n_wasted_bytes != than->n_wasted_bytes)
                return run->n_wasted_bytes < than->n_wasted_bytes;
        if (n_own != n_than)
                return n_own > n_than;
        if (has_end != (than->is_open_below || than->is_open_above))
                return has_end;
        return run->end - run->start < than->end - than->start;
}
