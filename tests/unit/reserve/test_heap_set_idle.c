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

TEST(what_the_idle_list_lacks_is_not_reused, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        begin((enum heap_runs)_i);
        ck_assert(!reuse(512));
        (void)add(1, 0, BLOCK);
        (void)add(1, BLOCK, BLOCK);
        put_idle();
        ck_assert(!reuse(2 * BLOCK + 512));
        ck_assert(reuse(2 * BLOCK) == (_i == HEAP_JOINED));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, _i == HEAP_JOINED ? 2 : 0);
}

TEST(the_smallest_run_is_reused)
{
        static const unsigned n_blocks[] = {8, 3, 2, 5};

        for (unsigned i = 0; i < ARRAY_SIZE(n_blocks); i++) {
                for (unsigned k = 0; k < n_blocks[i]; k++)
                        (void)add(1, i * GIB + k * BLOCK, BLOCK);
        }
        put_idle();
        ck_assert(reuse(3 * BLOCK));
        fill(0, 3 * BLOCK, GIB);
        ck_assert(reuse(2 * BLOCK + 512));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 6);
        fill(0, 2 * BLOCK + 512, 3 * GIB);
}

/* Four blocks on the idle list, and so much of the heap's that touches them. Which of them come, one bit
 * each, where runs are joined; and whether one does where they are kept apart. */
static const struct {
        uint64_t n_below, n_above, n_bytes;
        unsigned joined;
        bool split;
} edge_rows[] = {
        {0, 0, BLOCK, 1, 1},
        {0, 0, BLOCK + 512, 3, 0},
        {0, 0, 4 * BLOCK + 512, 0, 0},
        {MIB, 0, MIB + 512, 1, 1},
        {MIB, 0, MIB + BLOCK, 1, 0},
        {MIB, 0, MIB + BLOCK + 512, 3, 0},
        {MIB, 0, MIB + 4 * BLOCK, 15, 0},
        {MIB, 0, MIB + 4 * BLOCK + 512, 0, 0},
        {0, MIB, MIB + 512, 8, 1},
        {0, MIB, MIB + BLOCK, 8, 0},
        {0, MIB, MIB + BLOCK + 512, 12, 0},
        {0, MIB, MIB + 4 * BLOCK, 15, 0},
        {0, MIB, MIB + 4 * BLOCK + 512, 0, 0},
        {MIB, 512, MIB + BLOCK, 1, 0},
        {512, MIB, MIB + BLOCK, 8, 0},
        {MIB, MIB, MIB + BLOCK, 1, 0},
        {MIB, 512, MIB + 4 * BLOCK + 512, 15, 0},
        {MIB, MIB, 2 * MIB + 4 * BLOCK, 15, 0},
        {MIB, MIB, 2 * MIB + 4 * BLOCK + 512, 0, 0},
};

/* Blocks of that heap on both sides of the four. */
static void add_edges(unsigned heap, uint64_t n_below, uint64_t n_above)
{
        (void)add(heap, GIB - BLOCK, BLOCK);
        fill(heap, BLOCK - n_below, GIB - BLOCK);
        if (n_below)
                fill(heap, n_below, GIB - n_below);
        (void)add(heap, GIB + 4 * BLOCK, BLOCK);
        if (n_above)
                fill(heap, n_above, GIB + 4 * BLOCK);
        fill(heap, BLOCK - n_above, GIB + 4 * BLOCK + n_above);
        if (n_below)
                give(heap, GIB - n_below);
        if (n_above)
                give(heap, GIB + 4 * BLOCK);
}

static void expect_came(unsigned which)
{
        for (unsigned i = 0; i < 4; i++) {
                if (which >> i & 1)
                        expect_in(0, &world.blocks[i]);
                else
                        expect_idle(&world.blocks[i]);
        }
}

static bool reuse_between(enum heap_runs runs, unsigned owner, int row)
{
        uint64_t n_bytes = edge_rows[row].n_bytes, address;
        bool reused;

        begin(runs);
        for (unsigned i = 0; i < 4; i++)
                (void)add(1, GIB + i * BLOCK, BLOCK);
        put_idle();
        add_edges(owner, edge_rows[row].n_below, edge_rows[row].n_above);
        reused = reuse(n_bytes);
        ck_assert((heap_alloc(&heaps[0].heap, n_bytes, &address) == 0) == reused);
        check_all();
        return reused;
}

TEST(holes_that_touch_a_run_count, .to = ARRAY_SIZE(edge_rows), .in = &without_start)
{
        ck_assert(reuse_between(HEAP_JOINED, 0, _i) == (edge_rows[_i].joined != 0));
        expect_came(edge_rows[_i].joined);
}

TEST(anothers_holes_do_not_count, .to = ARRAY_SIZE(edge_rows), .in = &without_start)
{
        uint64_t n_bytes = edge_rows[_i].n_bytes;

        ck_assert(reuse_between(HEAP_JOINED, 1, _i) == (n_bytes <= 4 * BLOCK));
        if (n_bytes <= 4 * BLOCK)
                expect_came((1u << (n_bytes + BLOCK - 1) / BLOCK) - 1);
}

TEST(runs_kept_apart_come_one_by_one, .to = ARRAY_SIZE(edge_rows), .in = &without_start)
{
        ck_assert(reuse_between(HEAP_SPLIT, 0, _i) == edge_rows[_i].split);
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 2 + edge_rows[_i].split);
}

/* Four blocks of which three are wanted, and five elsewhere. What was got before the daemon was met
 * stays; what is left behind it may do. */
static const struct {
        unsigned revoked, n_got;
        bool is_enough;
} faster_rows[] = {{0, 3, true}, {1, 1, false}, {2, 2, false}, {3, 3, true}};

static void put_four_idle(void)
{
        for (unsigned i = 0; i < 4; i++)
                (void)add(1, GIB + i * BLOCK, BLOCK);
}

TEST(the_daemon_is_faster_with_one, .to = ARRAY_SIZE(faster_rows))
{
        bool is_enough = faster_rows[_i].is_enough;

        put_four_idle();
        put_idle();
        revoke(&world.blocks[faster_rows[_i].revoked]);
        ck_assert(reuse(3 * BLOCK) == is_enough);
        ck_assert_uint_eq(heaps[0].heap.n_blocks, faster_rows[_i].n_got);
        idle_list_sweep(&set.idle_list);
        expect_gone(&world.blocks[faster_rows[_i].revoked]);
        ck_assert_ptr_eq(idle_list_next_revoked(&set.idle_list),
                         &world.blocks[faster_rows[_i].revoked]);
        ck_assert_ptr_null(idle_list_next_revoked(&set.idle_list));
        if (is_enough)
                fill(0, 3 * BLOCK, GIB + (faster_rows[_i].revoked ? 0 : BLOCK));
}

TEST(another_run_does_where_the_daemon_is_faster, .to = ARRAY_SIZE(faster_rows))
{
        put_four_idle();
        for (unsigned i = 0; i < 5; i++)
                (void)add(1, 2 * GIB + i * BLOCK, BLOCK);
        put_idle();
        revoke(&world.blocks[faster_rows[_i].revoked]);
        ck_assert(reuse(3 * BLOCK));
        if (!faster_rows[_i].is_enough)
                fill(0, 3 * BLOCK, 2 * GIB);
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

TEST(all_are_revoked)
{
        put_four_idle();
        put_idle();
        for (unsigned i = 0; i < 4; i++)
                revoke(&world.blocks[i]);
        ck_assert(heap_set_has_empty(&set));
        ck_assert(!reuse(512));
        ck_assert_ptr_null(heap_set_take_idle(&set, 0, 0));
        ck_assert(!heap_set_has_empty(&set));
        for (unsigned i = 0; i < 4; i++)
                expect_gone(&world.blocks[i]);
}

/* The lease was idle when the connection went. */
TEST(what_lost_its_word_is_not_reused)
{
        put_four_idle();
        put_idle();
        world.blocks[0].word = world.blocks[2].word = NULL;
        ck_assert(!reuse(2 * BLOCK));
        ck_assert(reuse(BLOCK));
        ck_assert_uint_eq(heaps[0].heap.n_blocks, 1);
        ck_assert(world.blocks[0].heap == NULL && world.blocks[2].heap == NULL);
}

/* From the smallest hole, wherever it is; its lease is busy then. */
TEST(an_idle_block_is_taken_off_the_idle_list, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *large, *small, *own;

        begin((enum heap_runs)_i);
        large = add(1, 0, 4 * BLOCK);
        small = add(1, GIB, BLOCK);
        put_idle();
        own = add(0, 2 * GIB, 2 * BLOCK);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), small);
        ck_assert(small->heap == NULL);
        ck_assert_uint_eq(words[1], board_word(small->lease, BOARD_BUSY));
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), own);
        ck_assert_ptr_null(heap_set_take_idle(&set, WORLD_START, WORLD_START + BLOCK));
        expect_idle(large);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), large);
        ck_assert(!heap_set_has_empty(&set));
}

TEST(a_revoked_block_is_passed_over, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *large, *small;

        begin((enum heap_runs)_i);
        large = add(1, 0, 4 * BLOCK);
        small = add(1, GIB, BLOCK);
        put_idle();
        revoke(small);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), large);
        expect_gone(small);
        ck_assert_ptr_eq(idle_list_next_revoked(&set.idle_list), small);
}

TEST(the_idle_list_comes_before_other_heaps, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *found, *idle;

        begin((enum heap_runs)_i);
        found = add(1, 0, 4 * BLOCK);
        put_idle();
        idle = add(1, GIB, BLOCK);
        ck_assert(heap_set_adopt(&set, &heaps[0], BLOCK));
        expect_in(0, found);
        expect_in(1, idle);
        ck_assert(heap_set_adopt(&set, &heaps[0], BLOCK));
        expect_in(0, idle);
}

TEST(blocks_without_memory_to_come_stay, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        struct heap_block *block;
        bool reused;

        begin((enum heap_runs)_i);
        block = add(1, 0, BLOCK);
        put_idle();
        n_until_failure = 0;
        reused = heap_set_reuse_idle(&set, &heaps[0], BLOCK);
        n_until_failure = -1;
        ck_assert(!reused);
        expect_idle(block);
        ck_assert(reuse(BLOCK));
        expect_in(0, block);
}

TESTS_MAIN("heap_set_idle", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
