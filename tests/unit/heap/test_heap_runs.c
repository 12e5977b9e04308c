/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a heap that touch are one run to allocations, or each a run where runs are kept apart. */
#include <stdlib.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

#define BLOCK (2 * MIB)

static struct heap_world world;
static struct heap heap;

static void begin(enum heap_runs runs)
{
        world_init(&world, 64 * GIB);
        heap_init(&heap, world.arena, runs);
}

static void begin_joined(void)
{
        begin(HEAP_JOINED);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "heap_runs, split", .limit_s = UNLIMITED, .stop = end};

static void refuses(uint64_t n_bytes)
{
        uint64_t address;

        ck_assert_int_eq(heap_alloc(&heap, n_bytes, &address), GPUMEM_E_REFUSED);
}

static const unsigned orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {0, 3, 1, 2},
                                     {1, 3, 0, 2}, {2, 0, 3, 1}, {3, 0, 2, 1}, {1, 2, 3, 0}};

TEST(blocks_that_touch_are_one_run_in_every_order, .to = ARRAY_SIZE(orders))
{
        for (unsigned i = 0; i < 4; i++)
                (void)world_add(&world, &heap, orders[_i][i] * BLOCK, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 1);
        refuses(4 * BLOCK + 1);
        ck_assert_uint_eq(world_alloc(&heap, 4 * BLOCK), 0);
        (void)world_free(&heap, 0);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK - 512), 0);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK + 512), 3 * BLOCK - 512);
}

/* Whatever goes first, what is left are its runs. */
TEST(a_run_is_cut_in_every_order, .to = ARRAY_SIZE(orders))
{
        struct heap_block *blocks[4];

        for (unsigned i = 0; i < 4; i++)
                blocks[i] = world_add(&world, &heap, i * BLOCK, BLOCK);
        for (unsigned i = 0; i < 4; i++) {
                world_remove(&world, blocks[orders[_i][i]]);
                ck_assert_uint_eq(heap.n_reserved_bytes, (3 - i) * BLOCK);
        }
        ck_assert_uint_eq(heap.extents.n_free, 0);
        refuses(1);
}

TEST(runs_kept_apart_are_not_joined, .in = &without_start)
{
        struct heap_block *low, *high;

        begin(HEAP_SPLIT);
        high = world_add(&world, &heap, BLOCK, BLOCK);
        low = world_add(&world, &heap, 0, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        refuses(BLOCK + 1);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK), 0);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK), BLOCK);
        ck_assert_uint_eq(world_free(&heap, 0).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(world_free(&heap, BLOCK).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        refuses(BLOCK + 1);
        world_remove(&world, low);
        world_remove(&world, high);
}

TEST(another_heaps_block_is_not_joined)
{
        static struct heap other;

        heap_init(&other, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, BLOCK);
        (void)world_add(&world, &other, BLOCK, BLOCK);
        (void)world_add(&world, &heap, 2 * BLOCK, BLOCK);
        heap_check(&heap);
        heap_check(&other);
        refuses(BLOCK + 1);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        heap_deinit(&other);
}

/* Six blocks, in use from the middle of the second one to the middle of the fourth. */
TEST(a_block_is_empty_when_one_hole_covers_it)
{
        struct heap_block *blocks[6];
        uint64_t offset;

        for (unsigned i = 0; i < 6; i++)
                blocks[i] = world_add(&world, &heap, i * BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK + MIB), 0);
        offset = world_alloc(&heap, 2 * BLOCK);
        ck_assert_uint_eq(offset, BLOCK + MIB);
        (void)world_free(&heap, 0);
        for (unsigned i = 0; i < 6; i++)
                ck_assert_int_eq(heap_block_extent(&heap, blocks[i]) != 0, i == 0 || i > 3);
        ck_assert_uint_ne(heap_block_extent(&heap, blocks[0]), heap_block_extent(&heap, blocks[4]));
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[4]), heap_block_extent(&heap, blocks[5]));
        world_remove(&world, blocks[0]);
        world_remove(&world, blocks[4]);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[1]), 0);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[3]), 0);
        ck_assert_uint_eq(world_free(&heap, offset).n_extent_bytes, 3 * BLOCK);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[1]), heap_block_extent(&heap, blocks[3]));
}

/* A block whose neighbours' memory is in use. */
TEST(a_block_leaves_the_middle_of_a_run)
{
        struct heap_block *middle;

        (void)world_add(&world, &heap, 0, BLOCK);
        middle = world_add(&world, &heap, BLOCK, BLOCK);
        (void)world_add(&world, &heap, 2 * BLOCK, BLOCK);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_uint_eq(world_alloc(&heap, BLOCK), i * BLOCK);
        ck_assert_uint_eq(heap_block_extent(&heap, middle), 0);
        (void)world_free(&heap, BLOCK);
        world_remove(&world, middle);
        refuses(1);
        ck_assert_uint_eq(world_free(&heap, 0).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(world_free(&heap, 2 * BLOCK).n_extent_bytes, BLOCK);
        refuses(BLOCK + 1);
        (void)world_add(&world, &heap, BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK), 0);
}

/* What is added under a run does not make what follows it forget where it is. */
TEST(allocations_are_found_across_blocks)
{
        struct heap_allocation allocation;

        for (unsigned i = 1; i < 5; i++)
                (void)world_add(&world, &heap, i * BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK + 1), BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 512), 4 * BLOCK + 512);
        (void)world_add(&world, &heap, 0, BLOCK);
        for (uint64_t offset = BLOCK; offset <= 4 * BLOCK; offset += BLOCK / 4) {
                ck_assert_int_eq(heap_find(&heap, WORLD_START + offset, &allocation), 0);
                ck_assert_uint_eq(allocation.start, WORLD_START + BLOCK);
                ck_assert_uint_eq(allocation.n_requested_bytes, 3 * BLOCK + 1);
                ck_assert_uint_eq(allocation.n_allocated_bytes, 3 * BLOCK + 512);
        }
        ck_assert_int_eq(heap_find(&heap, WORLD_START + BLOCK - 1, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, WORLD_START + 4 * BLOCK + 1023, &allocation), 0);
        ck_assert_uint_eq(allocation.start, WORLD_START + 4 * BLOCK + 512);
}

/* New memory is free of work, and does not make what it is joined to idle. */
TEST(new_memory_is_idle_on_its_own)
{
        struct heap_block *used, *fresh;

        used = world_add(&world, &heap, 0, BLOCK);
        (void)world_alloc(&heap, BLOCK);
        (void)world_free(&heap, 0);
        fresh = world_add(&world, &heap, BLOCK, BLOCK);
        ck_assert(heap_is_idle(&heap, fresh));
        ck_assert(!heap_is_idle(&heap, used));
        heap.n_done_epochs = heap_new_epoch(&heap) + 1;
        ck_assert(heap_is_idle(&heap, used));
}

TESTS_MAIN("heap_runs", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
