/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/heap_blocks.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/heap/heap_slabs.h"

/* The most extents that one call makes. */
#define N_EXTENTS 4

/* The index at which a block with that start is, or would be inserted. */
static uint32_t place_of(const struct heap *heap, uint64_t start)
{
        uint32_t low = 0, high = heap->n_blocks;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (heap->blocks[middle]->at.start < start)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct heap_block *heap_own_block(const struct heap *heap, uint64_t address)
{
        struct heap_block *block = heap_block_at(heap->arena, address);

        assert(block && block->heap == heap);
        return block;
}

/* Updates `place` in the records from that index on. */
static void number(const struct heap *heap, uint32_t place)
{
        for (; place < heap->n_blocks; place++)
                heap->blocks[place]->place = place;
}

static int make_room(struct heap *heap)
{
        uint32_t n_room = heap->n_block_room ? heap->n_block_room * 2 : 16;
        struct heap_block **blocks;

        if (heap->n_blocks < heap->n_block_room)
                return 0;
        blocks = realloc(heap->blocks, n_room * sizeof(struct heap_block *));
        if (!blocks)
                return -ENOMEM;
        heap->blocks = blocks;
        heap->n_block_room = n_room;
        return 0;
}

int heap_reserve(struct heap *heap)
{
        int r = make_room(heap);

        return r ? r : extents_reserve(&heap->extents, N_EXTENTS);
}

/* The adjacent blocks of a block of this heap; NULL where there is none. */
struct neighbours {
        struct heap_block *below, *above;
};

static struct neighbours neighbours_of(const struct heap *heap, uint32_t place, uint64_t start,
                                       uint64_t end)
{
        struct neighbours found = {NULL, NULL};

        if (heap->runs == HEAP_SPLIT)
                return found;
        if (place > 0 && heap_block_end(heap->blocks[place - 1]) == start)
                found.below = heap->blocks[place - 1];
        for (; place < heap->n_blocks && heap->blocks[place]->at.start <= start; place++)
                ;
        if (place < heap->n_blocks && heap->blocks[place]->at.start == end)
                found.above = heap->blocks[place];
        return found;
}

int heap_add_block(struct heap *heap, struct heap_block *block)
{
        uint32_t place = place_of(heap, block->at.start);
        struct neighbours next;
        struct run_edges touching = {0, 0};
        int r;

        r = heap_reserve(heap);
        if (r)
                return r;
        next = neighbours_of(heap, place, block->at.start, heap_block_end(block));
        if (next.below)
                touching.before = next.below->edges.after;
        if (next.above)
                touching.after = next.above->edges.before;
        block->edges = extents_add(&heap->extents, heap_unit_of(heap, block->at.start),
                                   (uint32_t)(block->at.n_bytes / HEAP_UNIT), touching);
        if (next.below)
                next.below->edges.after = 0;
        if (next.above)
                next.above->edges.before = 0;
        memmove(&heap->blocks[place + 1], &heap->blocks[place],
                (heap->n_blocks - place) * sizeof(struct heap_block *));
        heap->blocks[place] = block;
        heap->n_blocks++;
        number(heap, place);
        heap->n_reserved_bytes += block->at.n_bytes;
        block->n_earlier = heap->n_adds++;
        block->heap = heap;
        block->epoch = 0;
        return 0;
}

uint32_t heap_first_edge(const struct heap *heap, const struct heap_block *block)
{
        uint32_t place = block->place;

        while (!heap->blocks[place]->edges.before)
                place--;
        return heap->blocks[place]->edges.before;
}

/* A linear search: few holes are that large. */
uint32_t heap_block_extent(const struct heap *heap, const struct heap_block *block)
{
        uint32_t unit = heap_unit_of(heap, block->at.start);
        uint32_t n_units = (uint32_t)(block->at.n_bytes / HEAP_UNIT), free_extent = 0;

        while ((free_extent = extents_next_large_free(&heap->extents, n_units, free_extent))) {
                const struct extent *extent = extents_at(&heap->extents, free_extent);

                if (extent->start <= unit && unit + n_units <= extent->start + extent->n_units)
                        break;
        }
        return free_extent;
}

bool heap_covers(const struct heap *heap, const struct extent *free_extent,
                 const struct heap_block *block)
{
        uint64_t start = heap_address_of(heap, free_extent->start);

        return block->at.start >= start &&
               block->at.start + block->at.n_bytes <= start + free_extent->n_units * HEAP_UNIT;
}

struct heap_block *heap_first_covered(const struct heap *heap, const struct extent *free_extent)
{
        uint64_t start = heap_address_of(heap, free_extent->start);
        uint64_t end = start + free_extent->n_units * HEAP_UNIT;
        struct heap_block *block;

        block = heap_own_block(heap, start);
        while (!heap_covers(heap, free_extent, block)) {
                uint64_t next = block->at.start + block->at.n_bytes;

                if (next >= end)
                        return NULL;
                block = heap_own_block(heap, next);
        }
        return block;
}

struct heap_block *heap_next_covered(const struct heap *heap, const struct extent *free_extent,
                                     const struct heap_block *block)
{
        uint64_t end = heap_block_end(block);
        struct heap_block *next = NULL;

        if (end < heap_address_of(heap, free_extent->start + free_extent->n_units))
                next = heap_own_block(heap, end);
        return next && heap_covers(heap, free_extent, next) ? next : NULL;
}

static void let_go(struct heap_block *block)
{
        heap_drop_cells(block);
        block->heap = NULL;
        block->edges = (struct run_edges){0, 0};
}

int heap_remove_block(struct heap *heap, struct heap_block *block)
{
        uint32_t place = block->place, free_extent = heap_block_extent(heap, block);
        struct neighbours next;
        struct run_edges made;
        int r;

        assert(free_extent && heap->blocks[place] == block);
        r = extents_reserve(&heap->extents, N_EXTENTS);
        if (r)
                return r;
        next = neighbours_of(heap, place, block->at.start, heap_block_end(block));
        made = extents_remove(&heap->extents, free_extent, heap_unit_of(heap, block->at.start),
                              (uint32_t)(block->at.n_bytes / HEAP_UNIT));
        if (next.below)
                next.below->edges.after = made.after;
        if (next.above)
                next.above->edges.before = made.before;
        heap->n_blocks--;
        memmove(&heap->blocks[place], &heap->blocks[place + 1],
                (heap->n_blocks - place) * sizeof(struct heap_block *));
        number(heap, place);
        heap->n_reserved_bytes -= block->at.n_bytes;
        let_go(block);
        return 0;
}

struct heap_block *heap_abandon_block(struct heap *heap)
{
        struct heap_block *block;

        if (!heap->n_blocks)
                return NULL;
        block = heap->blocks[--heap->n_blocks];
        let_go(block);
        return block;
}

/* A run begins where the block before is not adjacent. The blocks at its ends name its edges. */
void heap_check_block(const struct heap *heap, uint32_t place)
{
        const struct heap_block *block = heap->blocks[place];
        struct neighbours next = neighbours_of(heap, place, block->at.start, heap_block_end(block));

        assert(block->heap == heap && block->place == place && block->n_earlier < heap->n_adds);
        assert(arena_find(heap->arena, block->at.start) == &block->at);
        assert(place == 0 || heap_block_end(heap->blocks[place - 1]) <= block->at.start);
        assert(!block->edges.before == (next.below != NULL));
        assert(!block->edges.after == (next.above != NULL));
        if (block->edges.before)
                assert(extents_at(&heap->extents, block->edges.before)->start ==
                       heap_unit_of(heap, block->at.start));
        if (block->edges.after)
                assert(extents_at(&heap->extents, block->edges.after)->start ==
                       heap_unit_of(heap, heap_block_end(block)));
}
