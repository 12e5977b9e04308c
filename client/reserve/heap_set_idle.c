/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "client/reserve/free_run.h"
#include "client/reserve/heap_set.h"

/* How often the daemon may revoke a block first. */
#define TRIES_MAX 64

#define BLOCK_UNITS ((uint32_t)(HEAP_BLOCK_UNIT / HEAP_UNIT))

static bool is_settled(const struct heap *heap, const struct heap_block *block)
{
        return block->epoch < heap->n_settled_epochs && block->n_earlier < heap->n_settled_adds &&
               idle_list_may_have(block);
}

/* The first settled block with a word, or NULL. The caller has the heap's lock. */
static struct heap_block *find_settled(const struct heap *heap)
{
        uint32_t index = 0;

        while ((index = extents_next_large_free(&heap->extents, BLOCK_UNITS, index))) {
                const struct extent *free_extent = extents_at(&heap->extents, index);
                struct heap_block *block = heap_first_covered(heap, free_extent);

                while (block && !is_settled(heap, block))
                        block = heap_next_covered(heap, free_extent, block);
                if (block)
                        return block;
        }
        return NULL;
}

/* 1: a block had lost its word, so the idle list cannot have it; find_settled does not return it again. */
static int put_one_idle(struct heap_set *set, struct heap *heap, uint64_t now_us)
{
        struct heap_block *block;
        int r = -ENOENT;

        spin_lock(&heap->lock);
        block = find_settled(heap);
        if (block)
                r = idle_list_put(&set->idle_list, block);
        if (!r)
                block->idle_at_us = now_us;
        spin_unlock(&heap->lock);
        return r;
}

bool heap_set_put_idle(struct heap_set *set, uint64_t now_us)
{
        struct set_heap *heap;
        bool found = false;

        TAILQ_FOREACH (heap, &set->heaps, in_set) {
                int r;

                while ((r = put_one_idle(set, &heap->heap, now_us)) >= 0)
                        found = found || r == 0;
        }
        if (found)
                idle_patience_put(&set->patience, now_us);
        return found;
}

void heap_set_note_miss(struct heap_set *set, uint64_t n_bytes, uint64_t now_us)
{
        if (heap_set_allocated(set) + n_bytes <= set->n_reserved_bytes &&
            idle_patience_miss(&set->patience, now_us))
                budget_loosen(&set->budget);
}

static struct heap_block *find_older(const struct heap *idle_list, uint64_t at_us)
{
        for (uint32_t i = 0; i < idle_list->n_blocks; i++) {
                struct heap_block *block = idle_list->blocks[i];

                if (!block->is_pledged && block->idle_at_us <= at_us)
                        return block;
        }
        return NULL;
}

struct heap_block *heap_set_take_older(struct heap_set *set, uint64_t at_us)
{
        struct heap_block *block;
        int r = 1;

        while (set->arena && r == 1) {
                block = find_older(&set->idle_list.heap, at_us);
                if (!block)
                        return NULL;
                r = idle_list_take(&set->idle_list, block);
                if (r == 0)
                        return block;
                idle_list_sweep(&set->idle_list);
        }
        return NULL;
}

static bool settle(struct heap *heap)
{
        bool more = heap->n_settled_epochs < heap->n_done_epochs ||
                    heap->n_settled_adds < heap->n_adds;

        heap->n_settled_epochs = heap->n_done_epochs;
        heap->n_settled_adds = heap->n_adds;
        return more;
}

bool heap_set_settle(struct heap_set *set)
{
        struct set_heap *heap;
        bool more = false;

        TAILQ_FOREACH (heap, &set->heaps, in_set) {
                spin_lock(&heap->heap.lock);
                more = settle(&heap->heap) || more;
                spin_unlock(&heap->heap.lock);
        }
        return more;
}

bool heap_set_begin_look(struct heap_set *set, uint64_t now_us)
{
        uint64_t n_allocated = heap_set_allocated(set);

        if (now_us < set->next_look_us && n_allocated >= set->n_looked_bytes / 2)
                return false;
        set->next_look_us = now_us + HEAP_SET_LOOK_US;
        set->n_looked_bytes = n_allocated;
        return true;
}

/* Blocks that only some context can use are in no run with others. */
static bool can_use(const struct heap *heap, uint64_t start)
{
        return !heap->context_id ||
               heap_block_at(heap->arena, start)->context_id == heap->context_id;
}

/* Finds the best run of the idle list that holds n_bytes. */
static bool find_free_run(struct heap_set *set, struct heap *heap, uint64_t n_bytes,
                          struct free_run *ret_run)
{
        const struct heap *idle_list = &set->idle_list.heap;
        struct free_run best = {.start = 0};
        uint32_t free_extent = 0;

        spin_lock(&heap->lock);
        while ((free_extent = extents_next_large_free(&idle_list->extents, 1, free_extent))) {
                const struct extent *extent = extents_at(&idle_list->extents, free_extent);
                struct free_run run = free_run_of(
                        heap, heap_address_of(idle_list, extent->start),
                        heap_address_of(idle_list, extent->start + extent->n_units), n_bytes);

                if (run.is_enough && can_use(heap, run.start) &&
                    (!best.start || free_run_is_better(&run, &best)))
                        best = run;
        }
        spin_unlock(&heap->lock);
        *ret_run = best;
        return best.start != 0;
}

/* 1: the daemon has revoked it. */
static int reuse_one(struct heap_set *set, struct heap *heap, struct heap_block *block)
{
        int r;

        spin_lock(&heap->lock);
        r = heap_reserve(heap);
        if (!r)
                r = idle_list_take(&set->idle_list, block);
        if (!r)
                (void)heap_add_block(heap, block);
        spin_unlock(&heap->lock);
        return r;
}

static struct heap_block *find_recallable(const struct heap *idle_list, const struct heap *heap)
{
        for (uint32_t i = 0; i < idle_list->n_blocks; i++) {
                struct heap_block *block = idle_list->blocks[i];

                if (!block->is_pledged && block->context_id == heap->context_id)
                        return block;
        }
        return NULL;
}

void heap_set_recall_idle(struct heap_set *set, struct set_heap *heap)
{
        struct heap_block *block;

        while (set->arena && (block = find_recallable(&set->idle_list.heap, &heap->heap))) {
                if (reuse_one(set, &heap->heap, block) < 0)
                        return;
        }
}

static bool has_room(struct heap *heap, uint64_t n_bytes)
{
        bool found;

        spin_lock(&heap->lock);
        found = extents_find_free(&heap->extents, (uint32_t)(n_bytes / HEAP_UNIT)) != 0;
        spin_unlock(&heap->lock);
        return found;
}

bool heap_set_recall_loop(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        if (!set->patience.us || set->n_heaps > 1 || !set->idle_list.heap.n_blocks)
                return false;
        heap_set_recall_idle(set, heap);
        return has_room(&heap->heap, n_bytes);
}

static int reuse(struct heap_set *set, struct heap *heap, struct free_run rest, uint64_t n_bytes)
{
        struct heap_block *block;
        int r = 0;

        while (!r && (block = free_run_next(&rest, set->arena, n_bytes)))
                r = reuse_one(set, heap, block);
        return r;
}

/* If the daemon has revoked one block, it may have revoked many: they are swept out instead of tried one by one. */
bool heap_set_reuse_idle(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes)
{
        struct free_run run;
        int r = 1;

        for (unsigned i = 0; r == 1 && i < TRIES_MAX; i++) {
                if (!find_free_run(set, &heap->heap, n_bytes, &run))
                        return false;
                r = reuse(set, &heap->heap, run, n_bytes);
                if (r == 1)
                        idle_list_sweep(&set->idle_list);
        }
        return r == 0;
}
