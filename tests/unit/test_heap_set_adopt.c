/* SPDX-License-Identifier: Apache-2.0 */
/* Idle blocks that move from one heap to another, and plans within what is spare. */
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/heap_set.h"
#include "tests/suite.h"
#include "tests/unit/heap_world.h"

#define BLOCK (2 * MIB)
#define NOW   UINT64_C(1000000000)

static struct heap_world world;
static struct heap_set set;
static struct set_heap heaps[3];

static void begin(enum heap_runs runs)
{
        world_init(&world, 64 * GIB);
        heap_set_init(&set);
        heap_set_open(&set, world.arena, HEAP_JOINED);
        for (unsigned i = 0; i < 3; i++)
                heap_set_add(&set, &heaps[i], runs);
}

static void end(void)
{
        for (unsigned i = 0; i < 3; i++) {
                heap_check(&heaps[i].heap);
                heap_set_remove(&set, &heaps[i]);
        }
        world_deinit(&world);
}

static struct heap_block *add(unsigned heap, uint64_t offset, uint64_t n_bytes)
{
        return world_add(&world, &heaps[heap].heap, offset, n_bytes);
}

static void fill(unsigned heap, uint64_t n_bytes, uint64_t offset)
{
        ck_assert_uint_eq(world_alloc(&heaps[heap].heap, n_bytes), offset);
}

static void give(unsigned heap, uint64_t offset)
{
        (void)world_free(&heaps[heap].heap, offset);
}

/* Into the first heap. */
static bool adopt(uint64_t n_bytes)
{
        uint64_t n_bytes_before = 0, n_bytes_after = 0;
        bool adopted;

        for (unsigned i = 0; i < 3; i++)
                n_bytes_before += heaps[i].heap.n_reserved_bytes;
        adopted = heap_set_adopt(&set, &heaps[0], n_bytes);
        for (unsigned i = 0; i < 3; i++) {
                heap_check(&heaps[i].heap);
                n_bytes_after += heaps[i].heap.n_reserved_bytes;
        }
        ck_assert_uint_eq(n_bytes_before, n_bytes_after);
        return adopted;
}

static void expect_in(unsigned heap, const struct heap_block *block)
{
        ck_assert(block->heap == &heaps[heap].heap);
}

TEST(nothing_is_adopted_from_nobody)
{
        begin(HEAP_JOINED);
        ck_assert(!adopt(512));
        (void)add(0, 0, 8 * BLOCK);
        ck_assert(!adopt(512));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 1);
        end();
}

/* Of five blocks, as many as the bytes need. */
static const struct {
        uint64_t n_bytes;
        unsigned n_blocks;
} enough_rows[] = {{512, 1},       {BLOCK, 1},           {BLOCK + 512, 2},    {4 * BLOCK, 4},
                   {5 * BLOCK, 5}, {4 * BLOCK + 512, 5}, {5 * BLOCK + 512, 0}};

TEST(just_enough_blocks_move, .to = ARRAY_SIZE(enough_rows))
{
        struct heap_block *blocks[5];
        unsigned n_blocks = enough_rows[_i].n_blocks;

        begin(HEAP_JOINED);
        for (unsigned i = 0; i < 5; i++)
                blocks[i] = add(1, GIB + i * BLOCK, BLOCK);
        ck_assert_int_eq(adopt(enough_rows[_i].n_bytes), n_blocks > 0);
        for (unsigned i = 0; i < 5; i++)
                expect_in(i < n_blocks ? 0 : 1, blocks[i]);
        if (n_blocks)
                fill(0, enough_rows[_i].n_bytes, GIB);
        end();
}

TEST(blocks_of_any_size_move)
{
        struct heap_block *blocks[3];

        begin(HEAP_JOINED);
        blocks[0] = add(1, 0, BLOCK);
        blocks[1] = add(1, BLOCK, 9 * BLOCK);
        blocks[2] = add(1, 10 * BLOCK, BLOCK);
        ck_assert(adopt(2 * BLOCK));
        expect_in(0, blocks[0]);
        expect_in(0, blocks[1]);
        expect_in(1, blocks[2]);
        fill(0, 10 * BLOCK, 0);
        end();
}

/* The hole begins and ends within blocks, which stay: three blocks are whole. */
TEST(blocks_in_use_do_not_move)
{
        struct heap_block *blocks[5];

        begin(HEAP_JOINED);
        for (unsigned i = 0; i < 5; i++)
                blocks[i] = add(1, i * BLOCK, BLOCK);
        fill(1, MIB, 0);
        fill(1, 8 * MIB, MIB);
        fill(1, MIB, 9 * MIB);
        give(1, MIB);
        heaps[1].heap.n_done_epochs = heap_new_epoch(&heaps[1].heap) + 1;
        ck_assert(!adopt(3 * BLOCK + 512));
        ck_assert(adopt(3 * BLOCK));
        for (unsigned i = 0; i < 5; i++)
                expect_in(i == 0 || i == 4 ? 1 : 0, blocks[i]);
        fill(0, 3 * BLOCK, BLOCK);
        end();
}

TEST(blocks_that_are_not_idle_do_not_move)
{
        begin(HEAP_JOINED);
        (void)add(1, 0, 4 * BLOCK);
        fill(1, 512, 0);
        give(1, 0);
        ck_assert(!adopt(512));
        heaps[1].heap.n_done_epochs = heap_new_epoch(&heaps[1].heap) + 1;
        ck_assert(adopt(512));
        end();
}

/* Two heaps, or two holes, have enough together only. */
TEST(all_comes_from_one_hole)
{
        begin(HEAP_JOINED);
        (void)add(1, 0, 2 * BLOCK);
        (void)add(2, 2 * BLOCK, 2 * BLOCK);
        (void)add(1, 4 * BLOCK, 2 * BLOCK);
        ck_assert(!adopt(3 * BLOCK));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 0);
        end();
}

TEST(the_smallest_hole_that_is_large_enough_is_taken)
{
        struct heap_block *blocks[3];

        begin(HEAP_JOINED);
        blocks[0] = add(1, 0, 8 * BLOCK);
        blocks[1] = add(2, GIB, 4 * BLOCK);
        blocks[2] = add(2, 2 * GIB, 2 * BLOCK);
        ck_assert(adopt(3 * BLOCK));
        expect_in(1, blocks[0]);
        expect_in(0, blocks[1]);
        expect_in(2, blocks[2]);
        end();
}

/* What the heap has beside it, and the work that is not over there, is as it was. */
TEST(what_is_adopted_joins_the_heaps_own)
{
        begin(HEAP_JOINED);
        (void)add(0, 0, BLOCK);
        (void)add(1, BLOCK, BLOCK);
        (void)add(0, 2 * BLOCK, BLOCK);
        fill(0, BLOCK, 0);
        fill(0, BLOCK, 2 * BLOCK);
        give(0, 0);
        ck_assert(adopt(BLOCK));
        ck_assert_uint_eq(heaps[0].heap.extents.n_free, 1);
        fill(0, 2 * BLOCK, 0);
        ck_assert_uint_eq(heaps[1].heap.n_reserved_bytes, 0);
        end();
}

TEST(runs_kept_apart_give_one_block)
{
        struct heap_block *blocks[2];

        begin(HEAP_SPLIT);
        blocks[0] = add(1, 0, BLOCK);
        blocks[1] = add(1, BLOCK, 2 * BLOCK);
        ck_assert(!adopt(3 * BLOCK));
        ck_assert(adopt(BLOCK + 512));
        expect_in(1, blocks[0]);
        expect_in(0, blocks[1]);
        fill(0, BLOCK + 512, BLOCK);
        end();
}

/* 33 GiB may be held for the peak, and 32 are held or needed: 1/128 of the peak is within that; then
 * half of that is left, and then nothing. */
TEST(a_plan_grows_ahead_within_the_budget)
{
        struct placement plan;

        begin(HEAP_JOINED);
        budget_see(&set.budget, 32 * GIB, NOW);
        heap_set_count(&set, 32 * GIB - BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 256 * MIB);
        heap_set_count(&set, GIB - 128 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 128 * MIB + BLOCK);
        heap_set_count(&set, 128 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, BLOCK);
        heap_set_count(&set, GIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, BLOCK);
        end();
}

TESTS_MAIN("heap_set_adopt", .limit_s = UNLIMITED)
