/* SPDX-License-Identifier: Apache-2.0 */
/* Which empty block is to go; idle blocks that move from one heap to another, and plans within what is spare. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"

#define NOW UINT64_C(1000000000)

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "heap_set, split", .limit_s = UNLIMITED, .stop = end};

static void expect_taken(struct heap_block *block)
{
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), block);
        ck_assert(block->heap == NULL);
        world_remove(&world, block);
}

static void expect_none(void)
{
        ck_assert_ptr_null(heap_set_take_idle(&set, 0, 0));
}

TEST(an_empty_set_has_nothing)
{
        expect_none();
        ck_assert(!heap_set_has_empty(&set));
        ck_assert_uint_eq(heap_set_allocated(&set), 0);
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW), 0);
}

TEST(allocated_is_the_sum_of_heaps)
{
        for (unsigned i = 0; i < 3; i++) {
                (void)add(i, i * GIB, BLOCK);
                (void)world_alloc(&heaps[i].heap, 1000 * (i + 1));
        }
        ck_assert_uint_eq(heap_set_allocated(&set), 1024 + 2048 + 3072);
}

TEST(what_is_reserved_is_counted)
{
        heap_set_count(&set, 6 * BLOCK);
        heap_set_forget(&set, 4 * BLOCK);
        heap_set_count(&set, BLOCK);
        ck_assert_uint_eq(set.n_reserved_bytes, 3 * BLOCK);
        ck_assert_uint_eq(set.n_reserved_peak_bytes, 6 * BLOCK);
        heap_set_count(&set, 4 * BLOCK);
        ck_assert_uint_eq(set.n_reserved_peak_bytes, 7 * BLOCK);
}

/* 16 GiB are allocated and 16 more wanted: 33 may be held for 32. */
TEST(excess_is_what_is_held_above_the_budget)
{
        (void)add(0, 0, 16 * GIB);
        fill(0, 16 * GIB, 0);
        heap_set_count(&set, 16 * GIB);
        ck_assert_uint_eq(heap_set_excess(&set, 16 * GIB, NOW), 0);
        ck_assert_uint_eq(set.budget.n_peak_bytes, 32 * GIB);
        heap_set_count(&set, 16 * GIB);
        ck_assert_uint_eq(heap_set_excess(&set, GIB, NOW), 0);
        ck_assert_uint_eq(heap_set_excess(&set, 2 * GIB, NOW), GIB);
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW), 0);
        /* Of the 16 GiB above what is needed half is left of the peak. */
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW + BUDGET_HALF_LIFE_US),
                          32 * GIB - 24 * GIB - 24 * GIB / 32);
        set.budget.n_empty_max = BLOCK;
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW + BUDGET_HALF_LIFE_US), 16 * GIB - BLOCK);
}

TEST(a_block_in_use_stays)
{
        struct heap_block *block;

        block = add(0, 0, BLOCK);
        fill(0, 512, 0);
        pass(0);
        expect_none();
        ck_assert(!heap_set_has_empty(&set));
        give(0, 0);
        pass(0);
        ck_assert(heap_set_has_empty(&set));
        expect_taken(block);
        expect_none();
        ck_assert(!heap_set_has_empty(&set));
}

/* It is freed, but the work before is not over. */
TEST(a_block_that_is_not_idle_stays)
{
        struct heap_block *block;
        uint32_t epoch;

        block = add(0, 0, BLOCK);
        fill(0, BLOCK, 0);
        give(0, 0);
        ck_assert(heap_set_has_empty(&set));
        expect_none();
        epoch = heap_new_epoch(&heaps[0].heap);
        expect_none();
        heaps[0].heap.n_done_epochs = epoch;
        expect_none();
        heaps[0].heap.n_done_epochs = epoch + 1;
        expect_taken(block);
}

/* One hole, of which a part may be in use by work. */
TEST(what_is_joined_to_work_need_not_wait_for_it)
{
        struct heap_block *idle;

        (void)add(0, 0, BLOCK);
        idle = add(0, BLOCK, BLOCK);
        fill(0, BLOCK, 0);
        give(0, 0);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), idle);
        expect_none();
        pass(0);
        ck_assert_ptr_nonnull(heap_set_take_idle(&set, 0, 0));
        expect_none();
}

/* A hole from the middle of one to the middle of the third: the second goes. */
TEST(only_whole_blocks_go)
{
        struct heap_block *blocks[3];

        for (unsigned i = 0; i < 3; i++)
                blocks[i] = add(0, i * BLOCK, BLOCK);
        fill(0, MIB, 0);
        fill(0, 4 * MIB, MIB);
        fill(0, MIB, 5 * MIB);
        give(0, MIB);
        pass(0);
        expect_taken(blocks[1]);
        expect_none();
        ck_assert(!heap_set_has_empty(&set));
}

TEST(a_hole_without_a_whole_block_is_none)
{
        (void)add(0, 0, 4 * MIB);
        (void)add(0, 4 * MIB, 4 * MIB);
        fill(0, MIB, 0);
        fill(0, 6 * MIB, MIB);
        fill(0, MIB, 7 * MIB);
        give(0, MIB);
        pass(0);
        ck_assert(!heap_set_has_empty(&set));
        expect_none();
}

/* What is of least use: whichever heap it is in. */
TEST(the_smallest_hole_goes_first)
{
        struct heap_block *large[2], *small, *middle;

        large[0] = add(0, 0, 5 * BLOCK);
        large[1] = add(0, 5 * BLOCK, BLOCK);
        small = add(1, GIB, BLOCK);
        middle = add(2, 2 * GIB, 3 * BLOCK);
        expect_taken(small);
        expect_taken(middle);
        expect_taken(large[0]);
        expect_taken(large[1]);
        expect_none();
}

TEST(what_is_not_idle_hides_nothing)
{
        struct heap_block *large;

        large = add(0, 0, 5 * BLOCK);
        (void)add(1, GIB, BLOCK);
        fill(1, BLOCK, GIB);
        give(1, GIB);
        expect_taken(large);
        expect_none();
}

/* A block from 8 to 12 MiB; addresses from and up to where it stays. */
static const struct {
        uint64_t start, end;
        bool stays;
} between_rows[] = {
        {0, 0, false},
        {0, 8 * MIB, false},
        {0, 8 * MIB + 1, true},
        {8 * MIB, 12 * MIB, true},
        {9 * MIB, 10 * MIB, true},
        {12 * MIB - 1, GIB, true},
        {12 * MIB, GIB, false},
        {0, GIB, true},
};

TEST(nothing_goes_between_the_addresses, .to = ARRAY_SIZE(between_rows))
{
        struct heap_block *block;

        block = add(0, 8 * MIB, 4 * MIB);
        ck_assert_ptr_eq(heap_set_take_idle(&set, WORLD_START + between_rows[_i].start,
                                            WORLD_START + between_rows[_i].end),
                         between_rows[_i].stays ? NULL : block);
        ck_assert_int_eq(block->heap == &heaps[0].heap, between_rows[_i].stays);
}

/* The smaller one is spared. */
TEST(another_goes_that_is_not_between_the_addresses)
{
        struct heap_block *block;

        (void)add(0, 8 * MIB, BLOCK);
        block = add(1, GIB, 2 * BLOCK);
        ck_assert_ptr_eq(heap_set_take_idle(&set, WORLD_START, WORLD_START + GIB), block);
}

TEST(an_arena_has_room_for_heaps_far_apart)
{
        ck_assert_uint_eq(heap_set_arena_bytes(BLOCK), 16 * BLOCK);
        ck_assert_uint_eq(heap_set_arena_bytes(BLOCK + 1), 32 * BLOCK);
        ck_assert_uint_eq(heap_set_arena_bytes(200 * GIB), HEAP_ARENA_MAX);
        ck_assert_uint_eq(heap_set_arena_bytes(UINT64_MAX / 32), 0);
        ck_assert_uint_eq(heap_set_arena_bytes(UINT64_MAX), 0);
        ck_assert_uint_eq(heap_set_arena_bytes(0), 0);
}

TEST(it_is_hard_a_twelfth_above_the_peak)
{
        (void)heap_set_excess(&set, 12 * BLOCK, NOW);
        heap_set_count(&set, 12 * BLOCK);
        ck_assert(!heap_set_is_hard(&set, BLOCK));
        ck_assert(heap_set_is_hard(&set, BLOCK + 1));
}

/* Who holds nothing waits for one lease, or for some of 64 MiB; who holds something for up to eight. */
TEST(what_comes_first_is_in_one_block)
{
        struct placement plan;

        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, 20 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 160 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 3);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 64 * MIB);
        heap_set_count(&set, BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 5);
}

/* Into the first heap. */
static bool adopt(uint64_t n_bytes)
{
        uint64_t n_bytes_before = 0, n_bytes_after = 0;
        bool adopted;

        for (unsigned i = 0; i < 3; i++)
                n_bytes_before += heaps[i].heap.n_reserved_bytes;
        adopted = heap_set_adopt(&set, &heaps[0], n_bytes);
        check_all();
        for (unsigned i = 0; i < 3; i++)
                n_bytes_after += heaps[i].heap.n_reserved_bytes;
        ck_assert_uint_eq(n_bytes_before, n_bytes_after);
        return adopted;
}

TEST(nothing_is_adopted_from_nobody)
{
        ck_assert(!adopt(512));
        (void)add(0, 0, 8 * BLOCK);
        ck_assert(!adopt(512));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 1);
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

        for (unsigned i = 0; i < 5; i++)
                blocks[i] = add(1, GIB + i * BLOCK, BLOCK);
        ck_assert_int_eq(adopt(enough_rows[_i].n_bytes), n_blocks > 0);
        for (unsigned i = 0; i < 5; i++)
                expect_in(i < n_blocks ? 0 : 1, blocks[i]);
        if (n_blocks)
                fill(0, enough_rows[_i].n_bytes, GIB);
}

TEST(blocks_of_any_size_move)
{
        struct heap_block *blocks[3];

        blocks[0] = add(1, 0, BLOCK);
        blocks[1] = add(1, BLOCK, 9 * BLOCK);
        blocks[2] = add(1, 10 * BLOCK, BLOCK);
        ck_assert(adopt(2 * BLOCK));
        expect_in(0, blocks[0]);
        expect_in(0, blocks[1]);
        expect_in(1, blocks[2]);
        fill(0, 10 * BLOCK, 0);
}

/* The hole begins and ends within blocks, which stay: three blocks are whole. */
TEST(blocks_in_use_do_not_move)
{
        struct heap_block *blocks[5];

        for (unsigned i = 0; i < 5; i++)
                blocks[i] = add(1, i * BLOCK, BLOCK);
        fill(1, MIB, 0);
        fill(1, 8 * MIB, MIB);
        fill(1, MIB, 9 * MIB);
        give(1, MIB);
        pass(1);
        ck_assert(!adopt(3 * BLOCK + 512));
        ck_assert(adopt(3 * BLOCK));
        for (unsigned i = 0; i < 5; i++)
                expect_in(i == 0 || i == 4 ? 1 : 0, blocks[i]);
        fill(0, 3 * BLOCK, BLOCK);
}

TEST(blocks_that_are_not_idle_do_not_move)
{
        (void)add(1, 0, 4 * BLOCK);
        fill(1, 512, 0);
        give(1, 0);
        ck_assert(!adopt(512));
        pass(1);
        ck_assert(adopt(512));
}

/* Two heaps, or two holes, have enough together only. */
TEST(all_comes_from_one_hole)
{
        (void)add(1, 0, 2 * BLOCK);
        (void)add(2, 2 * BLOCK, 2 * BLOCK);
        (void)add(1, 4 * BLOCK, 2 * BLOCK);
        ck_assert(!adopt(3 * BLOCK));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 0);
}

TEST(the_smallest_hole_that_is_large_enough_is_taken)
{
        struct heap_block *blocks[3];

        blocks[0] = add(1, 0, 8 * BLOCK);
        blocks[1] = add(2, GIB, 4 * BLOCK);
        blocks[2] = add(2, 2 * GIB, 2 * BLOCK);
        ck_assert(adopt(3 * BLOCK));
        expect_in(1, blocks[0]);
        expect_in(0, blocks[1]);
        expect_in(2, blocks[2]);
}

/* What the heap has beside it, and the work that is not over there, is as it was. */
TEST(what_is_adopted_joins_the_heaps_own)
{
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
}

TEST(runs_kept_apart_give_one_block, .in = &without_start)
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
}

/* 33 GiB may be held for the peak, and 32 are held or needed: 1/128 of the peak is within that; then
 * half of that is left, and then nothing. */
TEST(a_plan_grows_ahead_within_the_budget)
{
        struct placement plan;

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
}

TESTS_MAIN("heap_set", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
