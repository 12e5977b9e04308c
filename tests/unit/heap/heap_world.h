/* SPDX-License-Identifier: Apache-2.0 */
/* An arena without memory behind it, and records of blocks that stand in it. One thread. */
#pragma once

#include "base/size.h"
#include "client/heap/heap.h"

#define WORLD_START      (UINT64_C(1) << 44)
#define WORLD_BLOCKS_MAX 4096

struct heap_world {
        struct arena *arena;
        unsigned n_blocks;
        struct heap_block blocks[WORLD_BLOCKS_MAX]; /* one after another; never used again */
};

void world_init(struct heap_world *world, uint64_t n_bytes);
void world_deinit(struct heap_world *world);

/* A block so far into the arena, in no heap. */
struct heap_block *world_put(struct heap_world *world, uint64_t offset, uint64_t n_bytes);

/* The same, as free memory of the heap. */
struct heap_block *world_add(struct heap_world *world, struct heap *heap, uint64_t offset,
                             uint64_t n_bytes);

/* Out of its heap, if it is in one, and out of the arena. */
void world_remove(struct heap_world *world, struct heap_block *block);

/* At the offset where it stands. */
uint64_t world_alloc(struct heap *heap, uint64_t n_bytes);
struct heap_freed world_free(struct heap *heap, uint64_t offset);
