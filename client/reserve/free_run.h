/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks without allocations that follow each other in the arena, and the holes of a heap that they touch: what the
 * heap would have as one hole if the blocks were its own. Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

struct free_run {
        uint64_t start, end;    /* of the blocks */
        uint64_t n_below_bytes; /* of the heap's holes */
        uint64_t n_above_bytes;
        uint64_t n_taken_bytes; /* of blocks that free_run_next gave */
};

/* Of the blocks between the two addresses. */
struct free_run free_run_of(const struct heap *heap, uint64_t start, uint64_t end);

static inline uint64_t free_run_bytes(const struct free_run *run)
{
        return run->end - run->start + run->n_below_bytes + run->n_above_bytes;
}

/* A run that holds n_bytes begins at the end where the heap's own hole is larger: the next of its blocks, or NULL once
 * there is room for n_bytes. */
struct heap_block *free_run_next(struct free_run *run, const struct arena *arena, uint64_t n_bytes);
