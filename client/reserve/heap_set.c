/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/heap_set.h"

#include <stddef.h>

#include "base/err.h"
#include "base/size.h"

/* How often another thread or the daemon may be faster with a block. */
#define TRIES_MAX 16

/* How many times the pool's size is reserved; addresses cost nothing. */
#define ARENA_TIMES 16

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

void heap_set_init(struct heap_set *set)
{
        *set = (struct heap_set){.budget = BUDGET_NULL, .n_leases_max = UINT32_MAX};
        TAILQ_INIT(&set->heaps);
}

void heap_set_open(struct heap_set *set, struct arena *arena, enum heap_runs runs)
{
        set->arena = arena;
        idle_list_init(&set->idle_list, arena, runs);
}

void heap_set_close(struct heap_set *set)
{
        if (set->arena)
                idle_list_deinit(&set->idle_list);
        set->arena = NULL;
}

uint64_t heap_set_arena_bytes(uint64_t n_capacity_bytes)
{
        uint64_t n_bytes;

        if (size_round_up(n_capacity_bytes, ARENA_GRANULE, &n_bytes) ||
            n_bytes > UINT64_MAX / 2 / ARENA_TIMES)
                return 0;
        n_bytes *= ARENA_TIMES;
        return n_bytes < HEAP_ARENA_MAX ? n_bytes : HEAP_ARENA_MAX;
}

void heap_set_add(struct heap_set *set, struct set_heap *heap, enum heap_runs runs)
{
        heap_init(&heap->heap, set->arena, runs);
        TAILQ_INSERT_TAIL(&set->heaps, heap, in_set);
        set->n_heaps++;
}

void heap_set_remove(struct heap_set *set, struct set_heap *heap)
{
        TAILQ_REMOVE(&set->heaps, heap, in_set);
        set->n_heaps--;
        heap_deinit(&heap->heap);
}

uint64_t heap_set_allocated(struct heap_set *set)
{
        struct set_heap *heap;
        uint64_t n_bytes = 0;

        TAILQ_FOREACH (heap, &set->heaps, in_set)
                n_bytes += atomic_load_explicit(&heap->heap.n_allocated_bytes,
                                                memory_order_relaxed);
        return n_bytes;
}

static void add_heap(struct heap *heap, struct heap_set_sums *sums)
{
        uint32_t n_hole_units, n_place_units;
        uint64_t n_bytes;

        spin_lock(&heap->lock);
        n_hole_units = extents_largest_free(&heap->extents);
        n_place_units = slabs_largest_free(&heap->slabs);
        sums->n_live += heap->alloc_table.n_entries + slabs_live(&heap->slabs);
        sums->n_free_bytes += heap->n_reserved_bytes - heap->n_allocated_bytes;
        sums->n_free_extents += heap->extents.n_free;
        sums->n_splits += heap->extents.n_splits;
        sums->n_merges += heap->extents.n_merges;
        spin_unlock(&heap->lock);
        n_bytes = (n_hole_units > n_place_units ? n_hole_units : n_place_units) * HEAP_UNIT;
        if (n_bytes > sums->n_largest_free_bytes)
                sums->n_largest_free_bytes = n_bytes;
}

void heap_set_sum(struct heap_set *set, struct heap_set_sums *ret_sums)
{
        struct heap_set_sums sums = {0};
        struct set_heap *heap;

        if (set->arena) {
                struct heap *idle = &set->idle_list.heap;

                add_heap(idle, &sums);
                sums.n_splits = sums.n_merges = 0;
                sums.n_idle_bytes = idle->n_reserved_bytes;
                sums.n_idle_blocks = idle->n_blocks;
        }
        TAILQ_FOREACH (heap, &set->heaps, in_set)
                add_heap(&heap->heap, &sums);
        *ret_sums = sums;
}

uint64_t heap_set_excess(struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us)
{
        uint64_t n_allocated = heap_set_allocated(set), n_budget;

        budget_see(&set->budget, n_allocated + n_more_bytes, now_us);
        n_budget = budget_bytes(&set->budget, n_allocated + n_more_bytes) + set->n_pledged_bytes;
        if (set->n_reserved_bytes + n_more_bytes <= n_budget)
                return 0;
        return set->n_reserved_bytes + n_more_bytes - n_budget;
}

bool heap_set_is_hard(const struct heap_set *set, uint64_t n_more_bytes)
{
        return set->n_reserved_bytes + n_more_bytes >
               budget_hard_bytes(&set->budget) + set->n_pledged_bytes;
}

void heap_set_count(struct heap_set *set, uint64_t n_bytes)
{
        set->n_reserved_bytes += n_bytes;
        if (set->n_reserved_bytes > set->n_reserved_peak_bytes)
                set->n_reserved_peak_bytes = set->n_reserved_bytes;
}

void heap_set_forget(struct heap_set *set, uint64_t n_bytes)
{
        set->n_reserved_bytes -= n_bytes;
        budget_return(&set->budget);
}

/* The idle block to give away first: one in the smallest hole, which is of least use. */
struct candidate {
        struct heap *heap;
        struct heap_block *block;
        uint32_t n_free_units;
};

static bool overlaps(const struct heap_block *block, uint64_t start, uint64_t end)
{
        return block->at.start < end && block->at.start + block->at.n_bytes > start;
}

static void look_for_idle(struct heap *heap, uint64_t start, uint64_t end, struct candidate *best)
{
        uint32_t index = 0;

        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                const struct extent *free_extent = extents_at(&heap->extents, index);
                struct heap_block *block;

                if (best->block && free_extent->n_units >= best->n_free_units)
                        continue;
                block = heap_first_covered(heap, free_extent);
                while (block && (block->is_pledged || !heap_is_idle(heap, block) ||
                                 overlaps(block, start, end)))
                        block = heap_next_covered(heap, free_extent, block);
                if (block)
                        *best = (struct candidate){heap, block, free_extent->n_units};
        }
}

/* 1: another thread has allocated from it since it was found. -ENOMEM. */
static int take_out(struct heap *heap, struct heap_block *block)
{
        uint32_t free_extent;
        int r = 1;

        spin_lock(&heap->lock);
        free_extent = heap_block_extent(heap, block);
        if (free_extent && heap_is_idle(heap, block))
                r = heap_remove_block(heap, block);
        spin_unlock(&heap->lock);
        return r;
}

static void look_in(struct heap *heap, uint64_t start, uint64_t end, struct candidate *best)
{
        spin_lock(&heap->lock);
        look_for_idle(heap, start, end, best);
        spin_unlock(&heap->lock);
}

/* 1: another thread or the daemon was faster. The daemon may have revoked many blocks, so all of those are swept out
 * at once. */
static int take(struct heap_set *set, const struct candidate *candidate)
{
        int r;

        if (candidate->heap != &set->idle_list.heap)
                return take_out(candidate->heap, candidate->block);
        r = idle_list_take(&set->idle_list, candidate->block);
        if (r == 1)
                idle_list_sweep(&set->idle_list);
        return r;
}

struct heap_block *heap_set_take_idle(struct heap_set *set, uint64_t start, uint64_t end)
{
        for (unsigned i = 0; i < TRIES_MAX; i++) {
                struct candidate best = {.block = NULL};
                struct set_heap *heap;
                int r = 0;

                if (set->arena)
                        look_in(&set->idle_list.heap, start, end, &best);
                TAILQ_FOREACH (heap, &set->heaps, in_set)
                        look_in(&heap->heap, start, end, &best);
                if (best.block)
                        r = take(set, &best);
                if (r <= 0)
                        return r ? NULL : best.block;
        }
        return NULL;
}

static bool has_empty(const struct heap *heap)
{
        uint32_t index = 0;

        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                if (heap_first_covered(heap, extents_at(&heap->extents, index)))
                        return true;
        }
        return false;
}

bool heap_set_has_empty(struct heap_set *set)
{
        struct set_heap *heap;
        bool found = set->arena && set->idle_list.heap.n_blocks;

        TAILQ_FOREACH (heap, &set->heaps, in_set) {
                spin_lock(&heap->heap.lock);
                found = found || has_empty(&heap->heap);
                spin_unlock(&heap->heap.lock);
        }
        return found;
}

/* The first of consecutive idle blocks that the hole covers and that hold n_bytes, or NULL. */
static struct heap_block *find_room(const struct heap *heap, const struct extent *free_extent,
                                    uint64_t n_bytes)
{
        struct heap_block *first = NULL, *block;

        for (block = heap_first_covered(heap, free_extent); block;
             block = heap_next_covered(heap, free_extent, block)) {
                if (!heap_is_idle(heap, block)) {
                        first = NULL;
                        continue;
                }
                if (!first)
                        first = block;
                if (block->at.start + block->at.n_bytes - first->at.start >= n_bytes)
                        return first;
        }
        return NULL;
}

/* Finds room in the smallest hole that has it. */
static void look_for_room(struct heap *heap, uint64_t n_bytes, struct candidate *best)
{
        uint32_t index = 0;

        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                const struct extent *free_extent = extents_at(&heap->extents, index);
                struct heap_block *first;

                if (best->block && free_extent->n_units >= best->n_free_units)
                        continue;
                first = find_room(heap, free_extent, n_bytes);
                if (first)
                        *best = (struct candidate){heap, first, free_extent->n_units};
        }
}

/* Moves one block to another heap; its address stays. No other function holds two heaps' locks. */
static bool move(struct heap *from, struct heap *to, struct heap_block *block)
{
        bool moved = false;

        spin_lock(&to->lock);
        if (heap_reserve(to) == 0 && take_out(from, block) == 0) {
                (void)heap_add_block(to, block);
                moved = true;
        }
        spin_unlock(&to->lock);
        return moved;
}

static bool adopt_from_others(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        struct candidate best = {.block = NULL};
        struct set_heap *other;
        uint64_t at, end;

        TAILQ_FOREACH (other, &set->heaps, in_set) {
                if (other == heap)
                        continue;
                spin_lock(&other->heap.lock);
                look_for_room(&other->heap, n_bytes, &best);
                spin_unlock(&other->heap.lock);
        }
        if (!best.block)
                return false;
        at = best.block->at.start;
        end = at + n_bytes;
        while (at < end) {
                struct heap_block *block = heap_block_at(set->arena, at);

                if (!block || !move(best.heap, &heap->heap, block))
                        return false;
                at += block->at.n_bytes;
        }
        return true;
}

bool heap_set_adopt(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        return heap_set_reuse_idle(set, heap, n_bytes) || adopt_from_others(set, heap, n_bytes);
}

static uint64_t spare_bytes(const struct heap_set *set, uint64_t n_needed)
{
        uint64_t n_held = set->n_reserved_bytes + n_needed;
        uint64_t n_budget = budget_bytes(&set->budget, set->budget.n_peak_bytes);

        return n_budget > n_held ? n_budget - n_held : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* The first request waits for its lease, and later requests are not known yet: it gets one block, unless that is more
 * than may be kept of it. */
static uint64_t block_bytes(const struct heap_set *set, uint64_t n_needed)
{
        uint64_t n_bytes = budget_block_bytes(&set->budget);
        uint64_t n_first = smaller(smaller(n_needed, FIRST_MAX), set->budget.n_empty_max);

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
        uint64_t n_parts = smaller(set->n_leases_max / JOIN_PART, JOIN_MOST);

        if (count_blocks(set) < smaller(set->n_leases_max / MANY_PART, MANY_MOST) || !n_parts)
                return 0;
        return smaller(set->n_reserved_bytes / n_parts & ~(HEAP_BLOCK_UNIT - 1), GIB);
}

int heap_set_plan(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes,
                  struct placement *ret_placement)
{
        struct placement_terms terms = {.n_peak_bytes = set->budget.n_peak_bytes,
                                        .n_block_bytes = block_bytes(set, n_bytes),
                                        .n_spare_bytes = spare_bytes(set, n_bytes),
                                        .n_least_bytes = least_lease(set)};
        int r;

        spin_lock(&heap->heap.lock);
        r = placement_plan(&heap->heap, n_bytes, &terms, ret_placement);
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

uint64_t heap_set_most_bytes(const struct heap_set *set, const struct placement *placement,
                             unsigned part)
{
        const struct arena_block *wanted = &placement->parts[part];
        uint64_t n_most = wanted->n_bytes + wanted->n_bytes / 8, n_room;

        if (part + 1 < placement->n_parts)
                return wanted->n_bytes;
        n_room = arena_room_above(set->arena, wanted->start);
        return (n_most < n_room ? n_most : n_room) & ~(HEAP_BLOCK_UNIT - 1);
}
