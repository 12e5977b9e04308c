/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/heap_set.h"

#include <stddef.h>

#include "base/err.h"
#include "base/size.h"

/* How often another thread or the daemon may be faster with a block. */
#define TRIES_MAX 16

/* How many times the pool's size is reserved; addresses cost nothing. */
#define ARENA_TIMES 16

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

/* Of so few the peak is seen at each call. */
#define HEAPS_SEEN_AT_ONCE 16

/* A loop needs its peak again in the next round, which is about as long as the patience that it has come to. */
#define PATIENCES 16

/* A program with many streams needs little in all, and yet a block in each. It may keep so many: once they are idle, others
 * can have them; a cache size says how many others never have. */
static uint64_t at_least(const struct heap_set *set, uint64_t n_bytes)
{
        uint64_t n_least_bytes = size_smaller(set->n_heaps * HEAP_BLOCK_UNIT,
                                              set->budget.n_empty_max);

        return n_bytes > n_least_bytes ? n_bytes : n_least_bytes;
}

bool heap_set_may_grow(const struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us)
{
        return set->n_reserved_bytes + n_more_bytes <= at_least(set, 0) &&
               !heap_set_is_short(set, now_us);
}

void heap_set_note_refused(struct heap_set *set, uint64_t now_us)
{
        set->short_until_us = now_us + HEAP_SET_SHORT_US;
}

bool heap_set_is_short(const struct heap_set *set, uint64_t now_us)
{
        return now_us < set->short_until_us;
}

uint64_t heap_set_excess(struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us)
{
        uint64_t n_allocated = heap_set_allocated(set), n_budget;

        set->budget.half_life_us = BUDGET_HALF_LIFE_US + PATIENCES * set->patience.us;
        budget_see(&set->budget, n_allocated + n_more_bytes, now_us);
        n_budget = at_least(set, budget_bytes(&set->budget, n_allocated + n_more_bytes)) +
                   set->n_pledged_bytes;
        if (set->n_reserved_bytes + n_more_bytes <= n_budget)
                return 0;
        return set->n_reserved_bytes + n_more_bytes - n_budget;
}

static uint64_t empty_bytes(const struct heap_set *set, uint64_t n_allocated_bytes)
{
        uint64_t n_used_bytes = n_allocated_bytes + set->n_pledged_bytes;

        return set->n_reserved_bytes > n_used_bytes ? set->n_reserved_bytes - n_used_bytes : 0;
}

bool heap_set_exceeds_cache(struct heap_set *set)
{
        return empty_bytes(set, heap_set_allocated(set)) > set->budget.n_empty_max;
}

uint64_t heap_set_spare(const struct heap_set *set, uint64_t n_allocated_bytes)
{
        uint64_t n_empty_bytes = empty_bytes(set, n_allocated_bytes);

        return set->budget.n_empty_max > n_empty_bytes ? set->budget.n_empty_max - n_empty_bytes
                                                       : 0;
}

/* The more heaps, the more a look costs, and the rarer it is. */
void heap_set_see(struct heap_set *set, uint64_t now_us)
{
        if (set->n_heaps <= HEAPS_SEEN_AT_ONCE || now_us > set->budget.faded_at_us + set->n_heaps)
                (void)heap_set_excess(set, 0, now_us);
}

bool heap_set_is_hard(const struct heap_set *set, uint64_t n_more_bytes)
{
        return set->n_reserved_bytes + n_more_bytes >
               at_least(set, budget_hard_bytes(&set->budget)) + set->n_pledged_bytes;
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

/* Which idle block is looked for. One to return is the first in the smallest hole, which is of least use. One to move is
 * the largest, which takes the fewest calls of the driver; of the largest, one in the smallest hole. */
struct wish {
        uint64_t start, end;   /* not between these */
        uint64_t n_most_bytes; /* one to move; 0: one to return */
        const struct heap *in; /* in this heap or on the idle list; NULL: in any */
};

struct candidate {
        struct heap *heap;
        struct heap_block *block;
        uint32_t n_free_units;
};

static bool overlaps(const struct heap_block *block, uint64_t start, uint64_t end)
{
        return block->at.start < end && block->at.start + block->at.n_bytes > start;
}

static bool is_wished(const struct heap *heap, const struct heap_block *block,
                      const struct wish *wish)
{
        return !block->is_pledged && heap_is_idle(heap, block) &&
               !overlaps(block, wish->start, wish->end) &&
               (!wish->n_most_bytes || block->at.n_bytes <= wish->n_most_bytes);
}

static bool is_better(const struct wish *wish, const struct heap_block *block,
                      uint32_t n_free_units, const struct candidate *best)
{
        if (!best->block)
                return true;
        if (wish->n_most_bytes && block->at.n_bytes != best->block->at.n_bytes)
                return block->at.n_bytes > best->block->at.n_bytes;
        return n_free_units < best->n_free_units;
}

static void look_for_idle(struct heap *heap, const struct wish *wish, struct candidate *best)
{
        uint32_t index = 0;

        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                const struct extent *free_extent = extents_at(&heap->extents, index);
                struct heap_block *block;

                if (!wish->n_most_bytes && best->block &&
                    free_extent->n_units >= best->n_free_units)
                        continue;
                for (block = heap_first_covered(heap, free_extent); block;
                     block = heap_next_covered(heap, free_extent, block)) {
                        if (is_wished(heap, block, wish) &&
                            is_better(wish, block, free_extent->n_units, best))
                                *best = (struct candidate){heap, block, free_extent->n_units};
                }
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

static void look_in(struct heap *heap, const struct wish *wish, struct candidate *best)
{
        spin_lock(&heap->lock);
        look_for_idle(heap, wish, best);
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

static struct heap_block *take_wished(struct heap_set *set, const struct wish *wish)
{
        for (unsigned i = 0; i < TRIES_MAX; i++) {
                struct candidate best = {.block = NULL};
                struct set_heap *heap;
                int r = 0;

                if (set->arena)
                        look_in(&set->idle_list.heap, wish, &best);
                TAILQ_FOREACH (heap, &set->heaps, in_set) {
                        if (!wish->in || wish->in == &heap->heap)
                                look_in(&heap->heap, wish, &best);
                }
                if (best.block)
                        r = take(set, &best);
                if (r <= 0)
                        return r ? NULL : best.block;
        }
        return NULL;
}

struct heap_block *heap_set_take_idle(struct heap_set *set, uint64_t start, uint64_t end)
{
        return take_wished(set, &(struct wish){.start = start, .end = end});
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

bool heap_set_is_empty_in(struct set_heap *heap)
{
        bool found;

        spin_lock(&heap->heap.lock);
        found = has_empty(&heap->heap);
        spin_unlock(&heap->heap.lock);
        return found;
}

bool heap_set_has_empty(struct heap_set *set)
{
        struct set_heap *heap;
        bool found = set->arena && set->idle_list.heap.n_blocks;

        TAILQ_FOREACH (heap, &set->heaps, in_set)
                found = found || heap_set_is_empty_in(heap);
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

/* Hands one block to another heap; its address stays. No other function holds two heaps' locks. 1, -ENOMEM: as take. */
static int hand_over(struct heap_set *set, struct heap *to, struct heap_block *block)
{
        const struct candidate candidate = {block->heap, block, 0};
        int r;

        spin_lock(&to->lock);
        r = heap_reserve(to);
        if (!r)
                r = take(set, &candidate);
        if (!r)
                (void)heap_add_block(to, block);
        spin_unlock(&to->lock);
        return r;
}

static bool adopt_from_others(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        struct candidate best = {.block = NULL};
        struct set_heap *other;
        uint64_t at, end;

        TAILQ_FOREACH (other, &set->heaps, in_set) {
                if (other == heap || other->heap.context_id != heap->heap.context_id)
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

                if (!block || hand_over(set, &heap->heap, block))
                        return false;
                at += block->at.n_bytes;
        }
        return true;
}

bool heap_set_adopt(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        return heap_set_reuse_idle(set, heap, n_bytes) || adopt_from_others(set, heap, n_bytes);
}

int heap_set_take_planned(struct heap_set *set, struct set_heap *heap,
                          const struct new_blocks *new_blocks)
{
        struct arena_block *at = arena_next(set->arena, new_blocks->start);
        int r = 0;

        while (!r && at && at->start < new_blocks->end) {
                struct heap_block *block = CONTAINER_OF(at, struct heap_block, at);

                if (block->heap != &heap->heap)
                        r = hand_over(set, &heap->heap, block);
                at = arena_next(set->arena, at->start + 1);
        }
        return r;
}

/* The gap that begins with the part of that index. Returns the index of the part behind it. */
static unsigned find_gap(const struct new_blocks *new_blocks, unsigned part,
                         struct arena_range *ret_gap)
{
        struct arena_range gap = {new_blocks->parts[part].start, new_blocks->parts[part].start};

        while (part < new_blocks->n_parts && new_blocks->parts[part].start == gap.end)
                gap.end += new_blocks->parts[part++].n_bytes;
        *ret_gap = gap;
        return part;
}

/* The block must fit, and is no larger than what would be leased: a large one is easily kept by a small allocation. */
static struct heap_block *take_movable(struct heap_set *set, const struct set_heap *heap,
                                       enum heap_set_reach reach,
                                       const struct new_blocks *new_blocks, uint64_t n_room_bytes)
{
        struct wish wish = {.start = new_blocks->start,
                            .end = new_blocks->end,
                            .n_most_bytes = size_smaller(n_room_bytes, new_blocks->n_block_bytes),
                            .in = reach == HEAP_SET_ALL ? NULL : &heap->heap};

        return take_wished(set, &wish);
}

/* Fills the gap's start with blocks that move there, as far as the request needs it. Returns how many. */
static unsigned move_into(struct heap_set *set, const struct set_heap *heap,
                          enum heap_set_reach reach, unsigned n_most,
                          const struct new_blocks *new_blocks, struct arena_range *gap,
                          struct heap_set_move *ret_moves)
{
        uint64_t end = size_smaller(gap->end, new_blocks->needed_end);
        struct heap_block *block;
        unsigned n = 0;

        while (n < n_most && gap->start < end &&
               (block = take_movable(set, heap, reach, new_blocks, end - gap->start))) {
                ret_moves[n++] = (struct heap_set_move){block, gap->start};
                gap->start += block->at.n_bytes;
                budget_move(&set->budget);
        }
        return n;
}

/* What is left of the gaps becomes parts again, no more than there were: writing stays behind reading. */
unsigned heap_set_take_moves(struct heap_set *set, const struct set_heap *heap,
                             enum heap_set_reach reach, unsigned n_most,
                             struct new_blocks *new_blocks, struct heap_set_move *ret_moves)
{
        unsigned n_parts = new_blocks->n_parts, next = 0, n = 0;
        struct arena_range gap;

        new_blocks->n_bytes = 0;
        for (unsigned part = 0, behind; part < n_parts; part = behind) {
                behind = find_gap(new_blocks, part, &gap);
                n += move_into(set, heap, reach, n_most - n, new_blocks, &gap, &ret_moves[n]);
                /* The request is served by moves: what was added for the sake of few leases is not needed. */
                if (n && !next && gap.start >= new_blocks->needed_end)
                        new_blocks->end = gap.end = gap.start;
                while (gap.start < gap.end) {
                        uint64_t n_bytes = size_smaller(gap.end - gap.start,
                                                        new_blocks->n_block_bytes);

                        new_blocks->parts[next++] = (struct arena_block){gap.start, n_bytes};
                        new_blocks->n_bytes += n_bytes;
                        gap.start += n_bytes;
                }
        }
        new_blocks->n_parts = next;
        return n;
}
