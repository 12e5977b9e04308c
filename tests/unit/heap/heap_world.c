/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/heap/heap_world.h"

#include <check.h>

void world_init(struct heap_world *world, uint64_t n_bytes)
{
        world->n_blocks = 0;
        ck_assert_int_eq(arena_new(WORLD_START, n_bytes, &world->arena), 0);
}

void world_deinit(struct heap_world *world)
{
        world->arena = arena_free(world->arena);
}

struct heap_block *world_put(struct heap_world *world, uint64_t offset, uint64_t n_bytes)
{
        struct heap_block *block;

        ck_assert_uint_lt(world->n_blocks, WORLD_BLOCKS_MAX);
        block = &world->blocks[world->n_blocks++];
        *block = (struct heap_block){.at = {WORLD_START + offset, n_bytes}};
        ck_assert_int_eq(arena_put(world->arena, &block->at), 0);
        return block;
}

struct heap_block *world_add(struct heap_world *world, struct heap *heap, uint64_t offset,
                             uint64_t n_bytes)
{
        struct heap_block *block = world_put(world, offset, n_bytes);

        ck_assert_int_eq(heap_add_block(heap, block), 0);
        ck_assert(block->heap == heap);
        heap_check(heap);
        return block;
}

void world_remove(struct heap_world *world, struct heap_block *block)
{
        struct heap *heap = block->heap;

        if (heap) {
                ck_assert_int_eq(heap_remove_block(heap, block), 0);
                ck_assert(block->heap == NULL);
                heap_check(heap);
        }
        arena_take_out(world->arena, &block->at);
}

uint64_t world_alloc(struct heap *heap, uint64_t n_bytes)
{
        uint64_t address;

        ck_assert_int_eq(heap_alloc(heap, n_bytes, &address), 0);
        heap_check(heap);
        return address - WORLD_START;
}

struct heap_freed world_free(struct heap *heap, uint64_t offset)
{
        struct heap_freed freed;

        ck_assert_int_eq(heap_free(heap, WORLD_START + offset, &freed), 0);
        heap_check(heap);
        return freed;
}
