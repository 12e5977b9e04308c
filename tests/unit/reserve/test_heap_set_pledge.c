/* SPDX-License-Identifier: Apache-2.0 */
/* Pledged blocks: on the idle list for every heap, and not for other clients. */
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"

/* The block is on the idle list, and its lease is busy. */
static void expect_pledged(const struct heap_block *block)
{
        ck_assert(block->heap == &set.idle_list.heap && block->is_pledged);
        ck_assert_uint_eq(*block->word, board_word(block->lease, BOARD_BUSY));
}

static struct new_blocks plan(uint64_t n_bytes, enum heap_set_pledge kind)
{
        struct new_blocks new_blocks;

        ck_assert_int_eq(heap_set_plan_pledge(&set, n_bytes, kind, &new_blocks), 0);
        ck_assert_uint_ge(new_blocks.end - new_blocks.start, n_bytes);
        return new_blocks;
}

static void pledge(uint64_t n_bytes)
{
        struct new_blocks new_blocks = plan(n_bytes, HEAP_SET_PLEDGE_IDLE);

        ck_assert_uint_eq(new_blocks.n_parts, 0);
        ck_assert_int_eq(heap_set_pledge(&set, new_blocks.start, new_blocks.end), 0);
        check_all();
}

TEST(a_run_that_is_long_enough_is_pledged)
{
        struct heap_block *blocks[3], *other;

        begin(HEAP_JOINED);
        for (unsigned i = 0; i < 3; i++)
                blocks[i] = add(0, i * BLOCK, BLOCK);
        other = add(0, GIB, BLOCK);
        put_idle();
        pledge(2 * BLOCK);
        ck_assert_uint_eq(set.n_pledged_bytes, 2 * BLOCK);
        expect_pledged(blocks[0]);
        expect_pledged(blocks[1]);
        expect_idle(blocks[2]);
        expect_idle(other);
        end();
}

TEST(what_is_missing_is_planned_beside_what_is_idle)
{
        struct new_blocks new_blocks;
        struct heap_block *block;

        begin(HEAP_JOINED);
        block = add(0, GIB, 2 * BLOCK);
        put_idle();
        new_blocks = plan(6 * BLOCK, HEAP_SET_PLEDGE_IDLE);
        ck_assert_uint_eq(new_blocks.n_bytes, 4 * BLOCK);
        ck_assert_uint_eq(new_blocks.start, block->at.start);
        new_blocks = plan(6 * BLOCK, HEAP_SET_PLEDGE_NEW);
        ck_assert_uint_eq(new_blocks.n_bytes, 6 * BLOCK);
        ck_assert(new_blocks.end <= block->at.start ||
                  new_blocks.start >= block->at.start + block->at.n_bytes);
        expect_idle(block);
        end();
}

TEST(a_large_one_is_cut_into_many_blocks)
{
        struct new_blocks new_blocks;

        begin(HEAP_JOINED);
        new_blocks = plan(8 * GIB, HEAP_SET_PLEDGE_NEW);
        ck_assert_uint_eq(new_blocks.n_bytes, 8 * GIB);
        ck_assert_uint_eq(new_blocks.n_parts, 32);
        end();
}

TEST(heaps_take_it_and_nobody_gives_it_back)
{
        struct heap_block *block;

        begin(HEAP_JOINED);
        block = add(0, 0, BLOCK);
        put_idle();
        pledge(BLOCK);
        ck_assert_ptr_null(heap_set_take_idle(&set, 0, 0));
        ck_assert(heap_set_reuse_idle(&set, &heaps[1], BLOCK));
        expect_in(1, block);
        ck_assert_ptr_null(heap_set_take_idle(&set, 0, 0));
        put_idle();
        expect_pledged(block);
        idle_list_sweep(&set.idle_list);
        expect_pledged(block);
        end();
}

/* The connection is over by which it was leased. */
TEST(it_needs_no_word)
{
        struct heap_block *block;

        begin(HEAP_JOINED);
        block = add(0, 0, BLOCK);
        put_idle();
        pledge(BLOCK);
        block->word = NULL;
        idle_list_sweep(&set.idle_list);
        ck_assert(heap_set_reuse_idle(&set, &heaps[1], BLOCK));
        put_idle();
        ck_assert(block->heap == &set.idle_list.heap);
        heap_set_end_pledge(&set);
        idle_list_sweep(&set.idle_list);
        ck_assert_ptr_eq(idle_list_next_revoked(&set.idle_list), block);
        end();
}

TEST(at_its_end_it_is_idle_as_any_other)
{
        struct heap_block *used, *unused;

        begin(HEAP_JOINED);
        used = add(0, 0, BLOCK);
        unused = add(0, BLOCK, BLOCK);
        put_idle();
        pledge(2 * BLOCK);
        ck_assert(heap_set_reuse_idle(&set, &heaps[1], BLOCK));
        expect_in(1, used);
        heap_set_end_pledge(&set);
        ck_assert_uint_eq(set.n_pledged_bytes, 0);
        expect_idle(unused);
        put_idle();
        expect_idle(used);
        ck_assert_ptr_nonnull(heap_set_take_idle(&set, 0, 0));
        end();
}

TEST(the_daemon_was_faster)
{
        struct heap_block *first, *second;

        begin(HEAP_JOINED);
        first = add(0, 0, BLOCK);
        second = add(0, BLOCK, BLOCK);
        put_idle();
        revoke(second);
        ck_assert_int_eq(heap_set_pledge(&set, first->at.start, second->at.start + BLOCK), 1);
        ck_assert_uint_eq(set.n_pledged_bytes, 0);
        expect_idle(first);
        idle_list_sweep(&set.idle_list);
        expect_gone(second);
        pledge(BLOCK);
        expect_pledged(first);
        end();
}

TEST(it_is_beside_the_budget)
{
        uint64_t n_excess;

        begin(HEAP_JOINED);
        (void)add(0, 0, 64 * BLOCK);
        heap_set_count(&set, 64 * BLOCK);
        put_idle();
        n_excess = heap_set_excess(&set, 0, 0);
        ck_assert_uint_gt(n_excess, 0);
        pledge(64 * BLOCK);
        ck_assert_uint_eq(heap_set_excess(&set, 0, 0), 0);
        end();
}

TESTS_MAIN("heap_set: pledge")
