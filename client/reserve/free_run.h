/* SPDX-License-Identifier: Apache-2.0 */
/* Adjacent blocks without allocations, and the holes of a heap that they touch: the one hole that the heap would have
 * if the blocks were its own. Pure; the caller holds the heap's lock and the arena's. */
#pragma once

#include <stdbool.h>

#include "client/heap/heap.h"

struct free_run {
        uint64_t start, end;    /* of the blocks */
        uint64_t n_below_bytes; /* of the heap's holes */
        uint64_t n_above_bytes;
        bool is_open_below, is_open_above; /* nothing stands there */
        bool is_enough;                    /* for the request */
        uint64_t n_wasted_bytes; /* of blocks that are taken, beyond the request; 0: little */
        uint64_t n_taken_bytes;  /* of blocks that free_run_next has returned */
};

/* The run of the blocks between the two addresses, for a request of n_bytes. */
struct free_run free_run_of(const struct heap *heap, uint64_t start, uint64_t end,
                            uint64_t n_bytes);

/* Which of two runs that are enough serves the request. The one that wastes less, since a small allocation keeps a large
 * block. Then the one where the heap's own hole is larger, so that its allocations stand side by side. Then one with an
 * open end: heaps that take turns begin in different runs, or at different ends of one. In the middle each would shut in
 * what the other needs next. Then the smaller. */
bool free_run_is_better(const struct free_run *run, const struct free_run *than);

/* The next block that the heap should take to have n_bytes, or NULL once it has them. It begins at the end of the run
 * where the heap's own hole is larger, or else at an open end. */
struct heap_block *free_run_next(struct free_run *run, const struct arena *arena, uint64_t n_bytes);
