/* SPDX-License-Identifier: Apache-2.0 */
/* Idle blocks that go to the idle list. How they come back is in test_heap_set_reuse.c. */
#include <stdlib.h>

#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"
#include "tests/unit/support/failing_alloc.h"

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "heap_set_idle, by runs", .limit_s = UNLIMITED, .stop = end};

TEST(a_block_is_put_idle_at_the_second_look, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *block;

        begin((enum heap_runs)_i);
        block = add(1, GIB, 2 * BLOCK);
        ck_assert(!heap_set_put_idle(&set));
        ck_assert(heap_set_settle(&set));
        expect_in(1, block);
        ck_assert(heap_set_put_idle(&set));
        expect_idle(block);
        ck_assert(!heap_set_settle(&set));
        ck_assert(!look());
        ck_assert(heap_set_has_empty(&set));
}

TEST(what_came_since_the_first_look_stays, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *old, *new;

        begin((enum heap_runs)_i);
        old = add(0, 0, BLOCK);
        ck_assert(!look());
        new = add(0, BLOCK, BLOCK);
        ck_assert(heap_set_put_idle(&set));
        expect_idle(old);
        expect_in(0, new);
        ck_assert(heap_set_settle(&set));
        ck_assert(look());
        expect_idle(new);
}

/* It came for a request that is not served yet. */
TEST(what_was_reused_or_adopted_stays)
{
        struct heap_block *block;

        block = add(0, 0, BLOCK);
        put_idle();
        ck_assert(reuse(512));
        ck_assert(!heap_set_put_idle(&set));
        expect_in(0, block);
        ck_assert(heap_set_adopt(&set, &heaps[1], 512));
        ck_assert(!heap_set_put_idle(&set));
        expect_in(1, block);
        put_idle();
        expect_idle(block);
}

TEST(work_that_is_not_over_is_waited_for)
{
        struct heap_block *block;

        block = add(0, 0, BLOCK);
        fill(0, 512, 0);
        give(0, 0);
        for (unsigned i = 0; i < 4; i++)
                ck_assert(!look());
        pass(0);
        ck_assert(!heap_set_put_idle(&set));
        ck_assert(heap_set_settle(&set));
        expect_in(0, block);
        ck_assert(look());
        expect_idle(block);
}

/* A loop: at every look it is idle, and between two it was used. */
TEST(what_was_used_between_looks_stays)
{
        struct heap_block *block;

        block = add(0, 0, BLOCK);
        for (unsigned i = 0; i < 5; i++) {
                ck_assert(!look());
                fill(0, BLOCK, 0);
                give(0, 0);
                pass(0);
        }
        expect_in(0, block);
        ck_assert(!look());
        ck_assert(look());
}

/* The hole begins and ends within blocks. */
TEST(blocks_in_use_stay)
{
        struct heap_block *blocks[5];

        for (unsigned i = 0; i < 5; i++)
                blocks[i] = add(1, i * BLOCK, BLOCK);
        fill(1, MIB, 0);
        fill(1, 8 * MIB, MIB);
        fill(1, MIB, 9 * MIB);
        give(1, MIB);
        pass(1);
        put_idle();
        for (unsigned i = 1; i < 4; i++)
                expect_idle(blocks[i]);
        expect_in(1, blocks[0]);
        expect_in(1, blocks[4]);
}

/* The way's bits say which have none. */
static void put_some_idle(enum heap_runs runs, unsigned way)
{
        end();
        begin(runs);
        for (unsigned i = 0; i < 5; i++) {
                (void)add(0, i * BLOCK, BLOCK);
                if (way >> i & 1)
                        world.blocks[i].word = NULL;
        }
        put_idle();
        for (unsigned i = 0; i < 5; i++) {
                if (way >> i & 1)
                        expect_in(0, &world.blocks[i]);
                else
                        expect_idle(&world.blocks[i]);
        }
        ck_assert(heap_set_has_empty(&set));
}

TEST(blocks_without_words_stay, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1)
{
        for (unsigned way = 0; way < 1 << 5; way++)
                put_some_idle((enum heap_runs)_i, way);
}

TEST(a_block_that_cannot_be_marked_holds_up_no_other, .to = 3)
{
        for (unsigned i = 0; i < 3; i++)
                (void)add(0, i * BLOCK, BLOCK);
        words[_i] = 0;
        put_idle();
        for (int i = 0; i < 3; i++) {
                if (i != _i)
                        expect_idle(&world.blocks[i]);
        }
        ck_assert(world.blocks[_i].heap == &heaps[0].heap && !world.blocks[_i].word);
        ck_assert_uint_eq(words[_i], 0);
}

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
                found = heap_set_put_idle(&set);
                n_failures += n_until_failure < 0;
                n_until_failure = -1;
                ck_assert(found == (set.idle_list.heap.n_blocks > n_before));
                check_all();
                ck_assert_uint_eq(set.idle_list.heap.n_blocks + heaps[0].heap.n_blocks, 40);
                /* One look can grow what the next needs. */
                n_until_failure = 1;
                (void)heap_set_put_idle(&set);
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
        found = heap_set_put_idle(&set);
        is_memory_gone = false;
        ck_assert(!found);
        for (unsigned i = 0; i < 3; i++)
                expect_in(0, &world.blocks[i]);
        ck_assert(look());
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

TESTS_MAIN("heap_set_idle", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
