/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of others a place has, and which blocks move to its gaps. tests/model/test_heap_model.c compares both with
 * a naive model. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"

static struct new_blocks plan;
static struct heap_set_move moves[HEAP_SET_MOVES];

static void make_plan(uint64_t n_bytes, enum heap_set_reach reach)
{
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], n_bytes, reach, &plan), 0);
}

/* A place of its own for one gap, far from all blocks. */
static void make_gap(uint64_t n_bytes, uint64_t n_block_bytes)
{
        plan = (struct new_blocks){.start = WORLD_START + 32 * GIB,
                                   .end = WORLD_START + 32 * GIB + n_bytes,
                                   .needed_end = WORLD_START + 32 * GIB + n_bytes,
                                   .n_block_bytes = n_block_bytes,
                                   .n_bytes = n_bytes};
        for (uint64_t at = 0; at < n_bytes; at += n_block_bytes)
                plan.parts[plan.n_parts++] = (struct arena_block){
                        plan.start + at,
                        n_bytes - at < n_block_bytes ? n_bytes - at : n_block_bytes};
}

static unsigned take(enum heap_set_reach reach)
{
        unsigned n = heap_set_take_moves(&set, &heaps[0], reach, HEAP_SET_MOVES, &plan, moves);

        check_all();
        return n;
}

static void expect_move(unsigned i, const struct heap_block *block, uint64_t offset)
{
        ck_assert_ptr_eq(moves[i].block, block);
        ck_assert_uint_eq(moves[i].to, plan.start + offset);
        ck_assert(block->heap == NULL);
}

/* 2 MiB of the heap's own, 2 of the idle list and 2 of another heap, side by side: nothing is leased. */
TEST(a_place_has_idle_blocks_of_others)
{
        struct heap_block *idle = add(1, BLOCK, BLOCK), *others;

        put_idle();
        others = add(2, 2 * BLOCK, BLOCK);
        (void)add(0, 0, BLOCK);
        make_plan(3 * BLOCK, HEAP_SET_ALL);
        ck_assert_uint_eq(plan.n_parts, 0);
        ck_assert_int_eq(heap_set_take_planned(&set, &heaps[0], &plan), 0);
        expect_in(0, idle);
        expect_in(0, others);
        fill(0, 3 * BLOCK, 0);
}

/* Alone, a heap has those of the idle list. */
TEST(blocks_of_other_heaps_are_not_within_every_reach)
{
        struct heap_block *others;

        (void)add(0, 0, BLOCK);
        others = add(2, BLOCK, BLOCK);
        make_plan(2 * BLOCK, HEAP_SET_ALONE);
        ck_assert_uint_gt(plan.n_parts, 0);
        ck_assert_int_eq(heap_set_take_planned(&set, &heaps[0], &plan), 0);
        expect_in(2, others);
}

/* Its free is not over. */
TEST(a_place_has_no_block_with_pending_work)
{
        struct heap_block *others;

        (void)add(0, 0, BLOCK);
        others = add(2, BLOCK, BLOCK);
        fill(2, BLOCK, BLOCK);
        give(2, BLOCK);
        make_plan(2 * BLOCK, HEAP_SET_ALL);
        ck_assert_uint_gt(plan.n_parts, 0);
        pass(2);
        make_plan(2 * BLOCK, HEAP_SET_ALL);
        ck_assert_uint_eq(plan.n_parts, 0);
        ck_assert_int_eq(heap_set_take_planned(&set, &heaps[0], &plan), 0);
        expect_in(0, others);
}

/* The daemon was faster: another plan is needed. */
TEST(a_revoked_block_of_a_place_is_found_out)
{
        struct heap_block *idle = add(1, BLOCK, BLOCK);

        put_idle();
        (void)add(0, 0, BLOCK);
        make_plan(2 * BLOCK, HEAP_SET_ALL);
        revoke(idle);
        ck_assert_int_eq(heap_set_take_planned(&set, &heaps[0], &plan), 1);
        expect_gone(idle);
}

/* The largest ones first; what is left of the gap is leased. */
TEST(the_largest_blocks_move)
{
        struct heap_block *small = add(1, 0, 2 * BLOCK), *large = add(2, 8 * BLOCK, 4 * BLOCK),
                          *own = add(0, 16 * BLOCK, 3 * BLOCK);

        make_gap(11 * BLOCK, 4 * BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 3);
        expect_move(0, large, 0);
        expect_move(1, own, 4 * BLOCK);
        expect_move(2, small, 7 * BLOCK);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, plan.start + 9 * BLOCK);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 2 * BLOCK);
        ck_assert_uint_eq(plan.n_bytes, 2 * BLOCK);
}

/* A large block would be kept by a small allocation. */
TEST(no_block_moves_that_is_larger_than_a_new_one)
{
        (void)add(1, 0, 4 * BLOCK);
        make_gap(8 * BLOCK, 4 * BLOCK - BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        ck_assert_uint_eq(plan.n_bytes, 8 * BLOCK);
        make_gap(3 * BLOCK, 4 * BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        make_gap(8 * BLOCK, 4 * BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 1);
}

TEST(only_idle_blocks_move)
{
        struct heap_block *busy = add(1, 0, BLOCK), *pending = add(1, 4 * BLOCK, BLOCK);

        fill(1, BLOCK, 0);
        fill(1, BLOCK, 4 * BLOCK);
        give(1, 4 * BLOCK);
        make_gap(2 * BLOCK, BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        expect_in(1, busy);
        expect_in(1, pending);
        pass(1);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 1);
        expect_move(0, pending, 0);
}

TEST(blocks_of_other_heaps_move_within_reach_only)
{
        struct heap_block *idle = add(1, 0, BLOCK), *own;

        put_idle();
        (void)add(1, 4 * BLOCK, BLOCK);
        own = add(0, 8 * BLOCK, BLOCK);
        make_gap(4 * BLOCK, BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALONE), 2);
        ck_assert(idle->heap == NULL && own->heap == NULL);
        ck_assert_uint_eq(plan.n_bytes, 2 * BLOCK);
}

TEST(a_pledged_block_does_not_move)
{
        struct heap_block *block = add(1, 0, BLOCK);

        put_idle();
        ck_assert_int_eq(heap_set_pledge(&set, block->at.start, block->at.start + BLOCK), 0);
        make_gap(BLOCK, BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        heap_set_end_pledge(&set);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 1);
}

TEST(a_block_that_the_daemon_has_revoked_does_not_move)
{
        struct heap_block *block = add(1, 0, BLOCK);

        put_idle();
        revoke(block);
        make_gap(BLOCK, BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        expect_gone(block);
}

TEST(what_stands_in_the_place_does_not_move)
{
        struct heap_block *block = add(0, 0, BLOCK);

        make_gap(2 * BLOCK, BLOCK);
        plan.start = block->at.start;
        ck_assert_uint_eq(take(HEAP_SET_ALL), 0);
        expect_in(0, block);
}

/* Of 20 that could. What is not moved is leased in parts of the same size. */
TEST(no_more_blocks_move_than_a_request_may)
{
        for (unsigned i = 0; i < HEAP_SET_MOVES + 4; i++)
                (void)add(1, 2 * i * BLOCK, BLOCK);
        make_gap((HEAP_SET_MOVES + 4) * BLOCK, 2 * BLOCK);
        ck_assert_uint_eq(take(HEAP_SET_ALL), HEAP_SET_MOVES);
        ck_assert_uint_eq(plan.n_parts, 2);
        ck_assert_uint_eq(plan.parts[1].n_bytes, 2 * BLOCK);
        ck_assert_uint_eq(heap_set_take_moves(&set, &heaps[0], HEAP_SET_ALL, 0, &plan, moves), 0);
        ck_assert_uint_eq(plan.n_parts, 2);
}

/* Of two gaps each is filled for itself. */
TEST(gaps_are_filled_one_by_one)
{
        struct heap_block *first = add(1, 0, BLOCK), *second = add(1, 4 * BLOCK, 2 * BLOCK);

        make_gap(2 * BLOCK, 2 * BLOCK);
        plan.parts[0].n_bytes = BLOCK;
        plan.parts[1] = (struct arena_block){plan.start + 4 * BLOCK, 3 * BLOCK};
        plan.n_parts = 2;
        plan.end = plan.needed_end = plan.start + 7 * BLOCK;
        ck_assert_uint_eq(take(HEAP_SET_ALL), 2);
        expect_move(0, first, 0);
        expect_move(1, second, 4 * BLOCK);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, plan.start + 6 * BLOCK);
        ck_assert_uint_eq(plan.n_bytes, BLOCK);
}

/* Moves cost the driver's time, as returns do: so many in a short time, and the budget has more room. */
TEST(moves_count_in_the_budget)
{
        uint64_t n_moves = 0;

        set.budget.n_peak_bytes = 16 * GIB;
        for (unsigned i = 0; i < 60; i++) {
                unsigned n = world.n_blocks;

                for (unsigned k = 0; k < HEAP_SET_MOVES; k++)
                        (void)add(1, (n + k) * BLOCK, BLOCK);
                make_gap(HEAP_SET_MOVES * BLOCK, BLOCK);
                n_moves += take(HEAP_SET_ALL);
        }
        ck_assert_uint_eq(n_moves, 60 * HEAP_SET_MOVES);
        ck_assert_uint_gt(set.budget.n_slack_bytes, 0);
}

/* What is added to a request for the sake of few leases is no reason for moves. */
TEST(blocks_move_for_what_is_needed_only)
{
        for (unsigned i = 0; i < 4; i++)
                (void)add(1, 4 * i * BLOCK, BLOCK);
        make_gap(10 * BLOCK, 10 * BLOCK);
        plan.needed_end = plan.start + 2 * BLOCK;
        ck_assert_uint_eq(take(HEAP_SET_ALL), 2);
        ck_assert_uint_eq(plan.n_parts, 0);
        ck_assert_uint_eq(plan.n_bytes, 0);
        ck_assert_uint_eq(plan.end, plan.start + 2 * BLOCK);
}

/* If there must be a lease, it is as large as was planned. */
TEST(what_moves_do_not_fill_is_leased_with_what_was_added)
{
        struct heap_block *only = add(1, 0, BLOCK);

        make_gap(10 * BLOCK, 10 * BLOCK);
        plan.needed_end = plan.start + 2 * BLOCK;
        ck_assert_uint_eq(take(HEAP_SET_ALL), 1);
        expect_move(0, only, 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, plan.start + BLOCK);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 9 * BLOCK);
}

TESTS_MAIN("heap_set_moves", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
