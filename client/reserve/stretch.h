/* Blocks without allocations that follow each other in the arena, and the holes of a heap that they
 * touch: what the heap would have as one hole if the blocks were its own. Pure; the caller holds the
 * heap's lock and the arena's. */
#pragma once

#include "client/heap/heap.h"

struct stretch {
        uint64_t start, end;    /* of the blocks */
        uint64_t n_below_bytes; /* of the heap's holes */
        uint64_t n_above_bytes;
        uint64_t n_taken_bytes; /* of blocks that stretch_next gave */
};

/* Of the blocks between the two addresses. */
struct stretch stretch_of(const struct heap *heap, uint64_t start, uint64_t end);

static inline uint64_t stretch_bytes(const struct stretch *stretch)
{
        return stretch->end - stretch->start + stretch->n_below_bytes + stretch->n_above_bytes;
}

/* A stretch that holds n_bytes is begun from the end where the heap's own hole is larger: the next of
 * its blocks, or NULL once there is room for n_bytes. */
struct heap_block *stretch_next(struct stretch *stretch, const struct arena *arena,
                                uint64_t n_bytes);
