/* SPDX-License-Identifier: Apache-2.0 */
/* Which empty block is to go. What moves between heaps is in test_space_adopt.c. */
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

static void begin(void)
{
        world_init(&world, 64 * GIB);
        heap_set_init(&set);
        heap_set_open(&set, world.arena, HEAP_JOINED);
        for (unsigned i = 0; i < 3; i++)
                heap_set_add(&set, &heaps[i], HEAP_JOINED);
        ck_assert_uint_eq(set.n_heaps, 3);
}

static void end(void)
{
        for (unsigned i = 0; i < 3; i++) {
                heap_check(&heaps[i].heap);
                heap_set_remove(&set, &heaps[i]);
        }
        ck_assert_uint_eq(set.n_heaps, 0);
        world_deinit(&world);
}

static struct heap_block *add(unsigned heap, uint64_t offset, uint64_t n_bytes)
{
        return world_add(&world, &heaps[heap].heap, offset, n_bytes);
}

/* An allocation of exactly a hole's size is where the hole was. */
static void fill(unsigned heap, uint64_t n_bytes, uint64_t offset)
{
        ck_assert_uint_eq(world_alloc(&heaps[heap].heap, n_bytes), offset);
}

static void give(unsigned heap, uint64_t offset)
{
        (void)world_free(&heaps[heap].heap, offset);
}

/* The work before all that was freed is over. */
static void pass(unsigned heap)
{
        heaps[heap].heap.n_done_epochs = heap_new_epoch(&heaps[heap].heap) + 1;
}

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
        begin();
        expect_none();
        ck_assert(!heap_set_has_empty(&set));
        ck_assert_uint_eq(heap_set_allocated(&set), 0);
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW), 0);
        end();
}

TEST(allocated_is_the_sum_of_heaps)
{
        begin();
        for (unsigned i = 0; i < 3; i++) {
                (void)add(i, i * GIB, BLOCK);
                (void)world_alloc(&heaps[i].heap, 1000 * (i + 1));
        }
        ck_assert_uint_eq(heap_set_allocated(&set), 1024 + 2048 + 3072);
        end();
}

TEST(what_is_reserved_is_counted)
{
        begin();
        heap_set_count(&set, 6 * BLOCK);
        heap_set_forget(&set, 4 * BLOCK);
        heap_set_count(&set, BLOCK);
        ck_assert_uint_eq(set.n_reserved_bytes, 3 * BLOCK);
        ck_assert_uint_eq(set.n_reserved_peak_bytes, 6 * BLOCK);
        heap_set_count(&set, 4 * BLOCK);
        ck_assert_uint_eq(set.n_reserved_peak_bytes, 7 * BLOCK);
        end();
}

/* 16 GiB are allocated and 16 more wanted: 33 may be held for 32. */
TEST(excess_is_what_is_held_above_the_budget)
{
        begin();
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
        end();
}

TEST(a_block_in_use_stays)
{
        struct heap_block *block;

        begin();
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
        end();
}

/* It is freed, but the work before is not over. */
TEST(a_block_that_is_not_idle_stays)
{
        struct heap_block *block;
        uint32_t epoch;

        begin();
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
        end();
}

/* One hole, of which a part may be in use by work. */
TEST(what_is_joined_to_work_need_not_wait_for_it)
{
        struct heap_block *idle;

        begin();
        (void)add(0, 0, BLOCK);
        idle = add(0, BLOCK, BLOCK);
        fill(0, BLOCK, 0);
        give(0, 0);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), idle);
        expect_none();
        pass(0);
        ck_assert_ptr_nonnull(heap_set_take_idle(&set, 0, 0));
        expect_none();
        end();
}

/* A hole from the middle of one to the middle of the third: the second goes. */
TEST(only_whole_blocks_go)
{
        struct heap_block *blocks[3];

        begin();
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
        end();
}

TEST(a_hole_without_a_whole_block_is_none)
{
        begin();
        (void)add(0, 0, 4 * MIB);
        (void)add(0, 4 * MIB, 4 * MIB);
        fill(0, MIB, 0);
        fill(0, 6 * MIB, MIB);
        fill(0, MIB, 7 * MIB);
        give(0, MIB);
        pass(0);
        ck_assert(!heap_set_has_empty(&set));
        expect_none();
        end();
}

/* What is of least use: whichever heap it is in. */
TEST(the_smallest_hole_goes_first)
{
        struct heap_block *large[2], *small, *middle;

        begin();
        large[0] = add(0, 0, 5 * BLOCK);
        large[1] = add(0, 5 * BLOCK, BLOCK);
        small = add(1, GIB, BLOCK);
        middle = add(2, 2 * GIB, 3 * BLOCK);
        expect_taken(small);
        expect_taken(middle);
        expect_taken(large[0]);
        expect_taken(large[1]);
        expect_none();
        end();
}

TEST(what_is_not_idle_hides_nothing)
{
        struct heap_block *large;

        begin();
        large = add(0, 0, 5 * BLOCK);
        (void)add(1, GIB, BLOCK);
        fill(1, BLOCK, GIB);
        give(1, GIB);
        expect_taken(large);
        expect_none();
        end();
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

        begin();
        block = add(0, 8 * MIB, 4 * MIB);
        ck_assert_ptr_eq(heap_set_take_idle(&set, WORLD_START + between_rows[_i].start,
                                            WORLD_START + between_rows[_i].end),
                         between_rows[_i].stays ? NULL : block);
        ck_assert_int_eq(block->heap == &heaps[0].heap, between_rows[_i].stays);
        end();
}

/* The smaller one is spared. */
TEST(another_goes_that_is_not_between_the_addresses)
{
        struct heap_block *block;

        begin();
        (void)add(0, 8 * MIB, BLOCK);
        block = add(1, GIB, 2 * BLOCK);
        ck_assert_ptr_eq(heap_set_take_idle(&set, WORLD_START, WORLD_START + GIB), block);
        end();
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
        heap_set_init(&set);
        (void)heap_set_excess(&set, 12 * BLOCK, NOW);
        heap_set_count(&set, 12 * BLOCK);
        ck_assert(!heap_set_is_hard(&set, BLOCK));
        ck_assert(heap_set_is_hard(&set, BLOCK + 1));
}

/* Who holds nothing waits for one lease, or for some of 64 MiB; who holds something for up to eight. */
TEST(what_comes_first_is_in_one_block)
{
        struct placement plan;

        begin();
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, 20 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 160 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 3);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 64 * MIB);
        heap_set_count(&set, BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 5);
        end();
}

TESTS_MAIN("heap_set", .limit_s = UNLIMITED)
