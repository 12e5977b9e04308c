/* SPDX-License-Identifier: Apache-2.0 */
/* Where a heap's next blocks shall stand, and how large they are. */
#include "base/err.h"
#include "base/size.h"
#include "client/reserve/heap_set.h"

/* How small a block may be, compared with what is asked for. */
#define LEAST_PART  4
#define LEAST_BYTES (4 * MIB)

/* A larger first request is not worth one block. */
#define FIRST_MAX (64 * MIB)

/* From a quarter of the leases on, each is a part of what is held at least. So a device of 256 GiB has less than 4000
 * of them, or less than 150 if there may be 192. A process that holds less than LEASES_FEW has no reason to join. */
#define MANY_PART  4
#define MANY_MOST  3072
#define JOIN_PART  16
#define JOIN_MOST  192
#define LEASES_FEW 192

#define BLOCK_UNITS ((uint32_t)(HEAP_BLOCK_UNIT / HEAP_UNIT))

static uint64_t spare_bytes(const struct heap_set *set, uint64_t n_needed)
{
        uint64_t n_held = set->n_reserved_bytes + n_needed;
        uint64_t n_budget = budget_bytes(&set->budget, set->budget.n_peak_bytes);

        return n_budget > n_held ? n_budget - n_held : 0;
}

/* The first request waits for its lease, and later requests are not known yet: it gets one block, unless that is more
 * than may be kept of it. */
static uint64_t block_bytes(const struct heap_set *set, uint64_t n_needed)
{
        uint64_t n_bytes = budget_block_bytes(&set->budget);
        uint64_t n_first = size_smaller(size_smaller(n_needed, FIRST_MAX), set->budget.n_empty_max);

        return set->n_reserved_bytes || n_first < n_bytes ? n_bytes : n_first;
}

static uint64_t count_blocks(const struct heap_set *set)
{
        uint64_t n = set->idle_list.heap.n_blocks;
        const struct set_heap *heap;

        TAILQ_FOREACH (heap, &set->heaps, in_set)
                n += heap->heap.n_blocks;
        return n;
}

void heap_set_bound(struct heap_set *set, uint32_t n_leases_max)
{
        set->n_leases_max = n_leases_max;
}

void heap_set_join(struct heap_set *set)
{
        uint64_t n = count_blocks(set);

        if (n < LEASES_FEW)
                n = LEASES_FEW;
        if (n < set->n_leases_max)
                set->n_leases_max = (uint32_t)n;
}

/* The next lease is as large as that. */
static uint64_t least_lease(const struct heap_set *set)
{
        uint64_t n_parts = size_smaller(set->n_leases_max / JOIN_PART, JOIN_MOST);

        if (count_blocks(set) < size_smaller(set->n_leases_max / MANY_PART, MANY_MOST) || !n_parts)
                return 0;
        return size_smaller(set->n_reserved_bytes / n_parts & ~(HEAP_BLOCK_UNIT - 1), GIB);
}

/* Marks the idle blocks that the look may take. */
static void mark_idle(struct heap *heap, uint64_t n_look)
{
        uint32_t index = 0;

        spin_lock(&heap->lock);
        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                const struct extent *free_extent = extents_at(&heap->extents, index);
                struct heap_block *block;

                for (block = heap_first_covered(heap, free_extent); block;
                     block = heap_next_covered(heap, free_extent, block)) {
                        if (heap_is_idle(heap, block))
                                block->n_look = n_look;
                }
        }
        spin_unlock(&heap->lock);
}

/* Begins a look of a heap at the others. Returns its number. */
static uint64_t look_at_others(struct heap_set *set, const struct set_heap *heap,
                               enum heap_set_reach reach)
{
        struct set_heap *other;

        set->n_looks++;
        mark_idle(&set->idle_list.heap, set->n_looks);
        TAILQ_FOREACH (other, &set->heaps, in_set) {
                if (reach == HEAP_SET_ALL && other != heap)
                        mark_idle(&other->heap, set->n_looks);
        }
        return set->n_looks;
}

int heap_set_plan(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes,
                  enum heap_set_reach reach, struct new_blocks *ret_new_blocks)
{
        bool is_joined = heap->heap.runs == HEAP_JOINED;
        struct new_blocks_terms terms = {.n_look = is_joined ? look_at_others(set, heap, reach) : 0,
                                         .n_peak_bytes = set->budget.n_peak_bytes,
                                         .n_block_bytes = block_bytes(set, n_bytes),
                                         .n_spare_bytes = spare_bytes(set, n_bytes),
                                         .n_least_bytes = least_lease(set)};
        int r;

        spin_lock(&heap->heap.lock);
        r = new_blocks_plan(&heap->heap, n_bytes, &terms, ret_new_blocks);
        spin_unlock(&heap->heap.lock);
        return r;
}

uint64_t heap_set_least_bytes(uint64_t n_part_bytes, enum heap_set_parts kind)
{
        uint64_t n_least = n_part_bytes / LEAST_PART & ~(HEAP_BLOCK_UNIT - 1);

        if (kind == HEAP_SET_WHOLE_PARTS)
                return n_part_bytes;
        if (n_least < LEAST_BYTES)
                n_least = LEAST_BYTES;
        return n_least < n_part_bytes ? n_least : n_part_bytes;
}

uint64_t heap_set_most_bytes(const struct heap_set *set, const struct new_blocks *new_blocks,
                             unsigned part)
{
        const struct arena_block *wanted = &new_blocks->parts[part];
        uint64_t n_most = wanted->n_bytes + wanted->n_bytes / 8, n_room;

        if (part + 1 < new_blocks->n_parts)
                return wanted->n_bytes;
        n_room = arena_room_above(set->arena, wanted->start);
        return (n_most < n_room ? n_most : n_room) & ~(HEAP_BLOCK_UNIT - 1);
}
