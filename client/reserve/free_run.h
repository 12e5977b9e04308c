/* SPDX-License-Identifier: Apache-2.0 */
/* Adjacent blocks without allocations, and the holes of a heap that they touch: the one hole that the heap would have
 * if the blocks were its own. Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

struct free_run {
        uint64_t start, end;    /* of the blocks */
        uint64_t n_below_bytes; /* of the heap's holes */
        uint64_t n_above_bytes;
        uint64_t n_taken_bytes; /* of blocks that free_run_next has returned */
};

/* The run of the blocks between the two addresses. */
struct free_run free_run_of(const struct heap *heap, uint64_t start, uint64_t end);

static inline uint64_t free_run_bytes(const struct free_run *run)
{
        return run->end - run->start + run->n_below_bytes + run->n_above_bytes;
}

/* The next block that the heap should take to have n_bytes, or NULL once it has them. It begins at the end of the run
 * where the heap's own hole is larger. */
struct heap_block *free_run_next(struct free_run *run, const struct arena *arena, uint64_t n_bytes);
