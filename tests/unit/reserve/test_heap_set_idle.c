/* SPDX-License-Identifier: Apache-2.0 */
/* Idle blocks that go to the idle list, and come back from it if the daemon was not faster. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"
#include "tests/unit/support/failing_alloc.h"

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "heap_set_idle, by runs", .limit_s = UNLIMITED, .stop = end};

TEST(blocks_without_memory_to_move_stay, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        int n_failures = 0;
        bool found = false;

        begin((enum heap_runs)_i);
        for (unsigned i = 0; i < 40; i++)
                (void)add(0, 2 * i * BLOCK, BLOCK);
        (void)look();
        while (set.idle_list.heap.n_blocks < 40) {
                uint32_t n_before = set.idle_list.heap.n_blocks;

                n_until_failure = 0;
                found = heap_set_put_idle(&set, 0);
                n_failures += n_until_failure < 0;
                n_until_failure = -1;
                ck_assert(found == (set.idle_list.heap.n_blocks > n_before));
                check_all();
                ck_assert_uint_eq(set.idle_list.heap.n_blocks + heaps[0].heap.n_blocks, 40);
                /* One look can grow what the next needs. */
                n_until_failure = 1;
                (void)heap_set_put_idle(&set, 0);
                n_until_failure = -1;
                check_all();
        }
        ck_assert_int_ge(n_failures, 1);
}

static uint32_t spare_pieces(const struct heap *heap)
{
        return heap->extents.n_unused + (heap->extents.n_extents - heap->extents.n_touched);
}

/* The heap could let go of a block in the midst of a hole, and not take it back then. */
TEST(without_any_memory_no_block_is_lost)
{
        bool found;

        for (unsigned i = 0; i < 3; i++)
                (void)add(0, i * BLOCK, BLOCK);
        while (spare_pieces(&heaps[0].heap) > 4)
                (void)world_alloc(&heaps[0].heap, 512);
        (void)look();
        is_memory_gone = true;
        found = heap_set_put_idle(&set, 0);
        is_memory_gone = false;
        ck_assert(!found);
        for (unsigned i = 0; i < 3; i++)
                expect_in(0, &world.blocks[i]);
        ck_assert(look());
}

/* What came to the idle list first goes first; what the daemon has revoked is passed over. */
TEST(blocks_go_by_their_age)
{
        ck_assert_ptr_null(heap_set_take_older(&set, UINT64_MAX));
        for (unsigned i = 0; i < 3; i++) {
                (void)add(0, 2 * i * BLOCK, BLOCK);
                (void)heap_set_put_idle(&set, 0);
                (void)heap_set_settle(&set);
                ck_assert(heap_set_put_idle(&set, 100 * (i + 1)));
        }
        ck_assert_ptr_null(heap_set_take_older(&set, 99));
        ck_assert_ptr_eq(heap_set_take_older(&set, 100), &world.blocks[0]);
        ck_assert_ptr_null(heap_set_take_older(&set, 199));
        revoke(&world.blocks[1]);
        ck_assert_ptr_null(heap_set_take_older(&set, 200));
        ck_assert_ptr_eq(heap_set_take_older(&set, UINT64_MAX), &world.blocks[2]);
        ck_assert_uint_eq(set.idle_list.heap.n_blocks, 0);
}

/* Those who free fast look no more often than a thread would. */
TEST(looks_lie_apart)
{
        uint64_t now_us = 7;

        for (unsigned i = 0; i < 3; i++) {
                ck_assert(heap_set_begin_look(&set, now_us));
                ck_assert(!heap_set_begin_look(&set, now_us));
                ck_assert(!heap_set_begin_look(&set, now_us + HEAP_SET_LOOK_US - 1));
                now_us += HEAP_SET_LOOK_US;
        }
}

/* Of both heaps together, and no more often than it is halved. */
TEST(the_end_of_much_is_looked_at_at_once)
{
        (void)add(0, 0, 8 * BLOCK);
        (void)add(1, GIB, 8 * BLOCK);
        fill(0, 3 * BLOCK, 0);
        fill(0, BLOCK, 3 * BLOCK);
        fill(1, 4 * BLOCK, GIB);
        ck_assert(heap_set_begin_look(&set, 1));
        give(1, GIB);
        ck_assert(!heap_set_begin_look(&set, 1));
        give(0, 3 * BLOCK);
        ck_assert(heap_set_begin_look(&set, 1));
        ck_assert(!heap_set_begin_look(&set, 1));
        fill(0, BLOCK, 3 * BLOCK);
        give(0, 3 * BLOCK);
        ck_assert(!heap_set_begin_look(&set, HEAP_SET_LOOK_US));
        give(0, 0);
        ck_assert(heap_set_begin_look(&set, HEAP_SET_LOOK_US));
        ck_assert(!heap_set_begin_look(&set, HEAP_SET_LOOK_US));
}

/* More than anybody tries one by one. */
static void revoke_many(void)
{
        for (unsigned i = 0; i < 200; i++)
                (void)add(1, 2 * i * BLOCK, BLOCK);
        (void)add(1, GIB, 2 * BLOCK);
        put_idle();
        for (unsigned i = 0; i < 200; i++)
                revoke(&world.blocks[i]);
}

TEST(one_is_reused_that_many_revoked_ones_hide)
{
        revoke_many();
        ck_assert(reuse(512));
        expect_in(0, &world.blocks[200]);
}

TEST(one_is_taken_that_many_revoked_ones_hide)
{
        revoke_many();
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), &world.blocks[200]);
}

/* The idle list has runs of eight blocks, and two heaps take turns with pieces of one block and a half. */
#define RUN_BLOCKS 8
#define PIECE      (BLOCK / 2 * 3)

static void make_idle_runs(unsigned n)
{
        for (unsigned i = 0; i < n * RUN_BLOCKS; i++)
                (void)add(2, (uint64_t)(i / RUN_BLOCKS) * GIB + i % RUN_BLOCKS * BLOCK, BLOCK);
        put_idle();
}

static void take_piece(unsigned heap)
{
        uint64_t address;

        if (heap_alloc(&heaps[heap].heap, PIECE, &address) == 0)
                return;
        ck_assert(heap_set_reuse_idle(&set, &heaps[heap], PIECE));
        ck_assert_int_eq(heap_alloc(&heaps[heap].heap, PIECE, &address), 0);
}

/* Ten pieces are fifteen blocks, and the hole at the end of each heap's row is less than one. */
TEST(heaps_that_take_turns_do_not_shut_each_other_in)
{
        make_idle_runs(2);
        for (unsigned i = 0; i < 5; i++) {
                take_piece(0);
                take_piece(1);
        }
        ck_assert_uint_eq(heaps[0].heap.n_blocks, RUN_BLOCKS);
        ck_assert_uint_eq(heaps[1].heap.n_blocks, RUN_BLOCKS);
}

/* Another run is smaller, but what is next to the heap's own hole is better. */
TEST(an_allocation_continues_the_heaps_own_hole)
{
        make_idle_runs(1);
        (void)add(0, 4 * GIB, BLOCK);
        fill(0, BLOCK / 2, 4 * GIB);
        for (unsigned i = 0; i < 2 * RUN_BLOCKS; i++)
                (void)add(2, 4 * GIB + (i + 1) * BLOCK, BLOCK);
        put_idle();
        ck_assert(heap_set_reuse_idle(&set, &heaps[0], PIECE));
        fill(0, PIECE, 4 * GIB + BLOCK / 2);
}

/* An own hole or an open end is not worth a gibibyte that others could have. */
TEST(a_small_request_takes_no_large_block, .to = 2)
{
        struct heap_block *large = add(1, BLOCK, 512 * BLOCK);
        struct heap_block *fitting = add(1, 4096 * BLOCK, BLOCK);

        put_idle();
        (void)add(0, 0, BLOCK);
        fill(0, _i ? BLOCK : BLOCK - 512, 0);
        (void)add(2, 4095 * BLOCK, BLOCK);
        fill(2, BLOCK, 4095 * BLOCK);
        (void)add(2, 4097 * BLOCK, BLOCK);
        fill(2, BLOCK, 4097 * BLOCK);
        ck_assert(reuse(BLOCK));
        expect_in(0, fitting);
        expect_idle(large);
}

/* Where blocks are kept apart, nothing is shut in: the smallest serves. */
TEST(apart_the_smallest_block_serves, .in = &without_start)
{
        begin(HEAP_SPLIT);
        (void)add(1, 0, BLOCK);
        fill(1, BLOCK, 0);
        (void)add(2, BLOCK, BLOCK);
        (void)add(1, 2 * BLOCK, BLOCK);
        fill(1, BLOCK, 2 * BLOCK);
        (void)add(2, GIB, 4 * BLOCK);
        put_idle();
        ck_assert(heap_set_reuse_idle(&set, &heaps[0], BLOCK));
        fill(0, BLOCK, BLOCK);
}

TESTS_MAIN("heap_set_idle", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
