#include "client/reserve/space.h"

#include <stddef.h>

#include "base/err.h"
#include "base/size.h"

/* How often others may be faster with a block. */
#define TRIES_MAX 16

/* Addresses cost nothing. */
#define ARENA_TIMES 16

/* How small a block may be beside what is asked for. */
#define LEAST_PART  4
#define LEAST_BYTES (4 * MIB)

/* What is larger is not worth one block. */
#define FIRST_MAX (64 * MIB)

#define BLOCK_UNITS ((uint32_t)(HEAP_BLOCK_UNIT / HEAP_UNIT))

void space_init(struct space *space)
{
        *space = (struct space){.budget = BUDGET_NULL};
        TAILQ_INIT(&space->heaps);
}

void space_open(struct space *space, struct arena *arena, enum heap_runs runs)
{
        space->arena = arena;
        idle_list_init(&space->idle_list, arena, runs);
}

void space_close(struct space *space)
{
        if (space->arena)
                idle_list_deinit(&space->idle_list);
        space->arena = NULL;
}

uint64_t space_arena_bytes(uint64_t n_capacity_bytes)
{
        uint64_t n_bytes;

        if (size_round_up(n_capacity_bytes, ARENA_GRANULE, &n_bytes) ||
            n_bytes > UINT64_MAX / 2 / ARENA_TIMES)
                return 0;
        n_bytes *= ARENA_TIMES;
        return n_bytes < HEAP_ARENA_MAX ? n_bytes : HEAP_ARENA_MAX;
}

void space_add(struct space *space, struct space_heap *heap, enum heap_runs runs)
{
        heap_init(&heap->heap, space->arena, runs);
        TAILQ_INSERT_TAIL(&space->heaps, heap, in_space);
        space->n_heaps++;
}

void space_remove(struct space *space, struct space_heap *heap)
{
        TAILQ_REMOVE(&space->heaps, heap, in_space);
        space->n_heaps--;
        heap_deinit(&heap->heap);
}

uint64_t space_allocated(struct space *space)
{
        struct space_heap *heap;
        uint64_t n_bytes = 0;

        TAILQ_FOREACH (heap, &space->heaps, in_space)
                n_bytes += atomic_load_explicit(&heap->heap.n_allocated_bytes,
                                                memory_order_relaxed);
        return n_bytes;
}

uint64_t space_excess(struct space *space, uint64_t n_more_bytes, uint64_t now_us)
{
        uint64_t n_allocated = space_allocated(space), n_budget;

        budget_see(&space->budget, n_allocated + n_more_bytes, now_us);
        n_budget = budget_bytes(&space->budget, n_allocated + n_more_bytes);
        if (space->n_reserved_bytes + n_more_bytes <= n_budget)
                return 0;
        return space->n_reserved_bytes + n_more_bytes - n_budget;
}

bool space_is_hard(const struct space *space, uint64_t n_more_bytes)
{
        return space->n_reserved_bytes + n_more_bytes > budget_hard_bytes(&space->budget);
}

void space_count(struct space *space, uint64_t n_bytes)
{
        space->n_reserved_bytes += n_bytes;
        if (space->n_reserved_bytes > space->n_reserved_peak_bytes)
                space->n_reserved_peak_bytes = space->n_reserved_bytes;
}

void space_forget(struct space *space, uint64_t n_bytes)
{
        space->n_reserved_bytes -= n_bytes;
        budget_return(&space->budget);
}

/* The idle block to part with first: one in the smallest hole, which is of least use. */
struct candidate {
        struct heap *heap;
        struct heap_block *block;
        uint32_t n_hole_units;
};

static bool overlaps(const struct heap_block *block, uint64_t start, uint64_t end)
{
        return block->at.start < end && block->at.start + block->at.n_bytes > start;
}

static void look_for_idle(struct heap *heap, uint64_t start, uint64_t end, struct candidate *best)
{
        uint32_t index = 0;

        while ((index = holes_next_large(&heap->holes, BLOCK_UNITS, index))) {
                const struct piece *hole = holes_at(&heap->holes, index);
                struct heap_block *block;

                if (best->block && hole->n_units >= best->n_hole_units)
                        continue;
                block = heap_first_covered(heap, hole);
                while (block && (!heap_is_idle(heap, block) || overlaps(block, start, end)))
                        block = heap_next_covered(heap, hole, block);
                if (block)
                        *best = (struct candidate){heap, block, hole->n_units};
        }
}

/* 1: another thread has cut from it since it was looked at. -ENOMEM. */
static int take_out(struct heap *heap, struct heap_block *block)
{
        uint32_t hole;
        int r = 1;

        spin_lock(&heap->lock);
        hole = heap_block_hole(heap, block);
        if (hole && heap_is_idle(heap, block))
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

/* 1: it was another's first. Of the daemon's there may be many, which are not tried one by one. */
static int take(struct space *space, const struct candidate *candidate)
{
        int r;

        if (candidate->heap != &space->idle_list.heap)
                return take_out(candidate->heap, candidate->block);
        r = idle_list_take(&space->idle_list, candidate->block);
        if (r == 1)
                idle_list_sweep(&space->idle_list);
        return r;
}

struct heap_block *space_take_idle(struct space *space, uint64_t start, uint64_t end)
{
        for (unsigned i = 0; i < TRIES_MAX; i++) {
                struct candidate best = {.block = NULL};
                struct space_heap *heap;
                int r = 0;

                if (space->arena)
                        look_in(&space->idle_list.heap, start, end, &best);
                TAILQ_FOREACH (heap, &space->heaps, in_space)
                        look_in(&heap->heap, start, end, &best);
                if (best.block)
                        r = take(space, &best);
                if (r <= 0)
                        return r ? NULL : best.block;
        }
        return NULL;
}

static bool has_empty(const struct heap *heap)
{
        uint32_t index = 0;

        while ((index = holes_next_large(&heap->holes, BLOCK_UNITS, index))) {
                if (heap_first_covered(heap, holes_at(&heap->holes, index)))
                        return true;
        }
        return false;
}

bool space_has_empty(struct space *space)
{
        struct space_heap *heap;
        bool found = space->arena && space->idle_list.heap.n_blocks;

        TAILQ_FOREACH (heap, &space->heaps, in_space) {
                spin_lock(&heap->heap.lock);
                found = found || has_empty(&heap->heap);
                spin_unlock(&heap->heap.lock);
        }
        return found;
}

/* The first of idle blocks that the hole covers one after another and that hold n_bytes, or NULL. */
static struct heap_block *find_room(const struct heap *heap, const struct piece *hole,
                                    uint64_t n_bytes)
{
        struct heap_block *first = NULL, *block;

        for (block = heap_first_covered(heap, hole); block;
             block = heap_next_covered(heap, hole, block)) {
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

/* In the smallest hole. */
static void look_for_room(struct heap *heap, uint64_t n_bytes, struct candidate *best)
{
        uint32_t index = 0;

        while ((index = holes_next_large(&heap->holes, BLOCK_UNITS, index))) {
                const struct piece *hole = holes_at(&heap->holes, index);
                struct heap_block *first;

                if (best->block && hole->n_units >= best->n_hole_units)
                        continue;
                first = find_room(heap, hole, n_bytes);
                if (first)
                        *best = (struct candidate){heap, first, hole->n_units};
        }
}

/* Moves one block; it stays where it is. Nobody else ever holds two locks. */
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

static bool adopt_from_others(struct space *space, struct space_heap *heap, uint64_t n_bytes)
{
        struct candidate best = {.block = NULL};
        struct space_heap *other;
        uint64_t at, end;

        TAILQ_FOREACH (other, &space->heaps, in_space) {
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
                struct heap_block *block = heap_block_at(space->arena, at);

                if (!block || !move(best.heap, &heap->heap, block))
                        return false;
                at += block->at.n_bytes;
        }
        return true;
}

bool space_adopt(struct space *space, struct space_heap *heap, uint64_t n_bytes)
{
        return space_reuse_idle(space, heap, n_bytes) || adopt_from_others(space, heap, n_bytes);
}

static uint64_t spare_bytes(const struct space *space, uint64_t n_needed)
{
        uint64_t n_held = space->n_reserved_bytes + n_needed;
        uint64_t n_budget = budget_bytes(&space->budget, space->budget.n_peak_bytes);

        return n_budget > n_held ? n_budget - n_held : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

/* What comes first is waited for, and nobody knows yet what will come after it: it gets one block, unless
 * that is more than may be kept of it. */
static uint64_t block_bytes(const struct space *space, uint64_t n_needed)
{
        uint64_t n_bytes = budget_block_bytes(&space->budget);
        uint64_t n_first = smaller(smaller(n_needed, FIRST_MAX), space->budget.n_empty_max);

        return space->n_reserved_bytes || n_first < n_bytes ? n_bytes : n_first;
}

int space_plan(struct space *space, struct space_heap *heap, uint64_t n_bytes,
               struct placement *ret_placement)
{
        struct placement_terms terms = {.n_peak_bytes = space->budget.n_peak_bytes,
                                        .n_block_bytes = block_bytes(space, n_bytes),
                                        .n_spare_bytes = spare_bytes(space, n_bytes)};
        int r;

        spin_lock(&heap->heap.lock);
        r = placement_plan(&heap->heap, n_bytes, &terms, ret_placement);
        spin_unlock(&heap->heap.lock);
        return r;
}

uint64_t space_least_bytes(uint64_t n_part_bytes, enum space_parts kind)
{
        uint64_t n_least = n_part_bytes / LEAST_PART & ~(HEAP_BLOCK_UNIT - 1);

        if (kind == SPACE_WHOLE_PARTS)
                return n_part_bytes;
        if (n_least < LEAST_BYTES)
                n_least = LEAST_BYTES;
        return n_least < n_part_bytes ? n_least : n_part_bytes;
}

uint64_t space_most_bytes(const struct space *space, const struct placement *placement,
                          unsigned part)
{
        const struct arena_block *wanted = &placement->parts[part];
        uint64_t n_most = wanted->n_bytes + wanted->n_bytes / 8, n_room;

        if (part + 1 < placement->n_parts)
                return wanted->n_bytes;
        n_room = arena_room_above(space->arena, wanted->start);
        return (n_most < n_room ? n_most : n_room) & ~(HEAP_BLOCK_UNIT - 1);
}
