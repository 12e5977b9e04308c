/* SPDX-License-Identifier: Apache-2.0 */
/* Pledges: memory that is held for later allocations, in blocks of the idle list that the daemon cannot revoke. */
#include <stddef.h>

#include "client/reserve/heap_set.h"

/* A stream takes whole blocks, so each stream may leave up to this part of a pledge unused. */
#define PLEDGE_PARTS 32

/* Finds the smallest run of the idle list that holds n_bytes. */
static bool find_run(const struct heap *idle_list, uint64_t n_bytes, struct new_blocks *ret_run)
{
        uint64_t n_best_bytes = UINT64_MAX;
        uint32_t index = 0;

        while ((index = extents_next_large_free(&idle_list->extents, 1, index))) {
                const struct extent *extent = extents_at(&idle_list->extents, index);
                uint64_t n_run_bytes = extent->n_units * HEAP_UNIT;

                if (n_run_bytes < n_bytes || n_run_bytes >= n_best_bytes)
                        continue;
                n_best_bytes = n_run_bytes;
                *ret_run = (struct new_blocks){.start = heap_address_of(idle_list, extent->start)};
                ret_run->end = ret_run->start + n_bytes;
        }
        return n_best_bytes != UINT64_MAX;
}

static int plan_new(const struct heap_set *set, uint64_t n_bytes,
                    const struct new_blocks_terms *terms, struct new_blocks *ret_new_blocks)
{
        struct heap none;
        int r;

        heap_init(&none, set->arena, set->idle_list.heap.runs);
        r = new_blocks_plan(&none, n_bytes, terms, ret_new_blocks);
        heap_deinit(&none);
        return r;
}

int heap_set_plan_pledge(struct heap_set *set, uint64_t n_bytes, enum heap_set_pledge kind,
                         struct new_blocks *ret_new_blocks)
{
        struct new_blocks_terms terms = {.n_parts = PLEDGE_PARTS};
        struct heap *idle_list = &set->idle_list.heap;
        int r = 0;

        if (kind == HEAP_SET_PLEDGE_NEW)
                return plan_new(set, n_bytes, &terms, ret_new_blocks);
        spin_lock(&idle_list->lock);
        if (!find_run(idle_list, n_bytes, ret_new_blocks))
                r = new_blocks_plan(idle_list, n_bytes, &terms, ret_new_blocks);
        spin_unlock(&idle_list->lock);
        return r;
}

static bool is_between(const struct heap_block *block, uint64_t start, uint64_t end)
{
        return block->at.start < end && block->at.start + block->at.n_bytes > start;
}

/* The caller has the lock. */
static void end_pledge(struct heap_set *set, uint64_t start, uint64_t end)
{
        struct heap *idle_list = &set->idle_list.heap;

        for (uint32_t i = 0; i < idle_list->n_blocks; i++) {
                struct heap_block *block = idle_list->blocks[i];

                if (!block->is_pledged || !is_between(block, start, end))
                        continue;
                idle_list_end_pledge(block);
                set->n_pledged_bytes -= block->at.n_bytes;
        }
}

int heap_set_pledge(struct heap_set *set, uint64_t start, uint64_t end)
{
        struct heap *idle_list = &set->idle_list.heap;
        int r = 0;

        spin_lock(&idle_list->lock);
        for (uint32_t i = 0; i < idle_list->n_blocks && !r; i++) {
                struct heap_block *block = idle_list->blocks[i];

                if (block->is_pledged || !is_between(block, start, end))
                        continue;
                if (idle_list_pledge(block))
                        set->n_pledged_bytes += block->at.n_bytes;
                else
                        r = 1;
        }
        if (r)
                end_pledge(set, start, end);
        spin_unlock(&idle_list->lock);
        return r;
}

int heap_set_add_pledged(struct heap_set *set, struct heap_block *block)
{
        int r;

        spin_lock(&set->idle_list.heap.lock);
        r = heap_add_block(&set->idle_list.heap, block);
        if (!r) {
                block->is_pledged = true;
                set->n_pledged_bytes += block->at.n_bytes;
        }
        spin_unlock(&set->idle_list.heap.lock);
        return r;
}

static void forget(struct heap *heap)
{
        spin_lock(&heap->lock);
        for (uint32_t i = 0; i < heap->n_blocks; i++)
                heap->blocks[i]->is_pledged = false;
        spin_unlock(&heap->lock);
}

void heap_set_end_pledge(struct heap_set *set)
{
        struct set_heap *heap;

        if (!set->arena || !set->n_pledged_bytes)
                return;
        spin_lock(&set->idle_list.heap.lock);
        end_pledge(set, 0, UINT64_MAX);
        spin_unlock(&set->idle_list.heap.lock);
        TAILQ_FOREACH (heap, &set->heaps, in_set)
                forget(&heap->heap);
        set->n_pledged_bytes = 0;
}
