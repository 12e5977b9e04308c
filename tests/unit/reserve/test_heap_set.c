/* SPDX-License-Identifier: Apache-2.0 */
/* The budget, and plans within what is spare. tests/model/test_heap_model.c
 * compares which blocks go and move with a naive model. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"

#define NOW             UINT64_C(1000000000)
#define HALF_LIFE_LOOKS (BUDGET_HALF_LIFE_US / BUDGET_PAUSE_US)

/* 16 GiB are allocated and 16 more wanted: 33 may be held for 32. */
TEST(excess_is_what_is_held_above_the_budget)
{
        uint64_t n_excess;

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
        for (unsigned i = 1; i <= HALF_LIFE_LOOKS; i++)
                (void)heap_set_excess(&set, 0, NOW + i * BUDGET_PAUSE_US);
        n_excess = heap_set_excess(&set, 0, NOW + BUDGET_HALF_LIFE_US);
        ck_assert_uint_ge(n_excess, 32 * GIB - 24 * GIB - 24 * GIB / 32);
        ck_assert_uint_le(n_excess, 32 * GIB - 24 * GIB - 24 * GIB / 32 + 2 * HALF_LIFE_LOOKS);
        set.budget.n_empty_max = BLOCK;
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW + BUDGET_HALF_LIFE_US), 16 * GIB - BLOCK);
}

TEST(what_may_still_become_empty_is_the_rest_of_the_size)
{
        heap_set_count(&set, 16 * GIB);
        set.budget.n_empty_max = GIB;
        ck_assert_uint_eq(heap_set_spare(&set, 16 * GIB), GIB);
        ck_assert_uint_eq(heap_set_spare(&set, 15 * GIB + 1), 1);
        ck_assert_uint_eq(heap_set_spare(&set, 15 * GIB), 0);
        ck_assert_uint_eq(heap_set_spare(&set, 0), 0);
        ck_assert(heap_set_exceeds_cache(&set));
        set.budget.n_empty_max = 16 * GIB;
        ck_assert(!heap_set_exceeds_cache(&set));
        set.budget.n_empty_max = GIB;
        set.n_pledged_bytes = 16 * GIB;
        ck_assert_uint_eq(heap_set_spare(&set, GIB), GIB);
}

/* So streams that need one at a time do not take it from each other. */
TEST(a_block_for_each_heap_is_no_excess)
{
        const uint64_t n_least = ARRAY_SIZE(heaps) * HEAP_BLOCK_UNIT;

        (void)add(0, 0, HEAP_BLOCK_UNIT);
        fill(0, 512, 0);
        heap_set_count(&set, n_least - HEAP_BLOCK_UNIT);
        ck_assert(heap_set_may_grow(&set, HEAP_BLOCK_UNIT, NOW));
        ck_assert(!heap_set_may_grow(&set, HEAP_BLOCK_UNIT + 1, NOW));
        ck_assert_uint_eq(heap_set_excess(&set, HEAP_BLOCK_UNIT, NOW), 0);
        ck_assert(!heap_set_is_hard(&set, HEAP_BLOCK_UNIT));
        heap_set_note_refused(&set, NOW);
        ck_assert(!heap_set_may_grow(&set, 512, NOW + HEAP_SET_SHORT_US - 1));
        ck_assert(heap_set_may_grow(&set, 512, NOW + HEAP_SET_SHORT_US));
        heap_set_count(&set, 2 * HEAP_BLOCK_UNIT);
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW), HEAP_BLOCK_UNIT);
        set.budget.n_empty_max = n_least;
        ck_assert_uint_eq(heap_set_excess(&set, 0, NOW), HEAP_BLOCK_UNIT);
        set.budget.n_empty_max = 0;
        ck_assert(!heap_set_may_grow(&set, 512, NOW + HEAP_SET_SHORT_US));
        ck_assert_uint_gt(heap_set_excess(&set, 0, NOW), HEAP_BLOCK_UNIT);
}

/* Of many it is not seen at each call. */
TEST(a_peak_is_seen_once_in_a_while)
{
        (void)add(0, 0, 2 * BLOCK);
        fill(0, BLOCK, 0);
        heap_set_see(&set, NOW);
        ck_assert_uint_eq(set.budget.n_peak_bytes, BLOCK);
        set.n_heaps = 1000;
        fill(0, 512, BLOCK);
        heap_set_see(&set, NOW + 1000);
        ck_assert_uint_eq(set.budget.n_peak_bytes, BLOCK);
        heap_set_see(&set, NOW + 1001);
        ck_assert_uint_eq(set.budget.n_peak_bytes, BLOCK + 512);
        set.n_heaps = ARRAY_SIZE(heaps);
}

/* A block from 8 to 12 MiB stays where one of its bytes lies between them. */
TEST(nothing_goes_between_the_addresses, .to = 2)
{
        struct heap_block *block = add(0, 8 * MIB, 4 * MIB);
        uint64_t start = block->at.start, end = start + block->at.n_bytes;

        ck_assert_ptr_null(heap_set_take_idle(&set, WORLD_START, start + 1));
        ck_assert_ptr_null(heap_set_take_idle(&set, end - 1, end + GIB));
        ck_assert_ptr_eq(_i ? heap_set_take_idle(&set, WORLD_START, start)
                            : heap_set_take_idle(&set, end, end + GIB),
                         block);
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

/* Who holds nothing waits for one lease, or for some of 64 MiB; who holds something for up to eight. */
TEST(what_comes_first_is_in_one_block)
{
        struct new_blocks plan;

        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, 20 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 160 * MIB, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 3);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 64 * MIB);
        heap_set_count(&set, BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], 20 * MIB, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 5);
}

/* 33 GiB may be held for the peak, and 32 are held or needed: 1/128 of the peak is within that; then
 * half of that is left, and then nothing. */
TEST(a_plan_grows_ahead_within_the_budget)
{
        struct new_blocks plan;

        budget_see(&set.budget, 32 * GIB, NOW);
        heap_set_count(&set, 32 * GIB - BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 256 * MIB);
        heap_set_count(&set, GIB - 128 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 128 * MIB + BLOCK);
        heap_set_count(&set, 128 * MIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, BLOCK);
        heap_set_count(&set, GIB);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[0], BLOCK, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, BLOCK);
}

/* The next request is for more than a block that is idle, in another part of the arena. */
#define MORE (BLOCK + MIB)

/* A heap and the idle list hold so many blocks of 2 MiB, far from each other. */
static void hold(unsigned n_blocks)
{
        for (unsigned i = 0; i < n_blocks; i++) {
                (void)add(i % 2, i * 2 * BLOCK, BLOCK);
                if (i % 2)
                        fill(1, BLOCK, i * 2 * BLOCK);
        }
        put_idle();
        heap_set_count(&set, n_blocks * BLOCK);
}

/* With 3072 blocks a lease has at least 1/192 of 6 GiB; with fewer it has as much as the request needs. */
TEST(many_small_blocks_make_the_next_ones_larger)
{
        struct new_blocks plan;

        hold(3071);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[2], MORE, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 2 * BLOCK);
        (void)world_add(&world, &heaps[1].heap, 3071 * 2 * BLOCK, BLOCK);
        heap_set_count(&set, BLOCK);
        ck_assert_int_eq(heap_set_plan(&set, &heaps[2], MORE, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, 32 * MIB);
        set.n_reserved_bytes = 64 * GIB;
        ck_assert_int_eq(heap_set_plan(&set, &heaps[2], MORE, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 340 * MIB);
        set.n_reserved_bytes = TIB;
        ck_assert_int_eq(heap_set_plan(&set, &heaps[2], MORE, HEAP_SET_ALL, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, GIB);
}

static uint64_t planned_bytes(void)
{
        struct new_blocks plan;

        ck_assert_int_eq(heap_set_plan(&set, &heaps[2], MORE, HEAP_SET_ALL, &plan), 0);
        return plan.n_bytes;
}

/* Of 400 leases 100 are many, and the next ones 1/25 of what is held. */
TEST(few_leases_are_used_sparingly)
{
        hold(99);
        heap_set_bound(&set, 400);
        ck_assert_uint_eq(planned_bytes(), 2 * BLOCK);
        (void)world_add(&world, &heaps[1].heap, 99 * 2 * BLOCK, BLOCK);
        heap_set_count(&set, BLOCK);
        ck_assert_uint_eq(planned_bytes(), 8 * MIB);
        heap_set_bound(&set, 0);
        ck_assert_uint_eq(planned_bytes(), 2 * BLOCK);
}

/* The 300 blocks that were refused are all that the process may have: from a quarter of them on, a lease is 1/18 of
 * what is held. */
TEST(a_refusal_tells_how_many_leases_there_are)
{
        hold(300);
        ck_assert_uint_eq(planned_bytes(), 2 * BLOCK);
        heap_set_join(&set);
        ck_assert_uint_eq(planned_bytes(), 32 * MIB);
        heap_set_bound(&set, 16384);
        ck_assert_uint_eq(planned_bytes(), 2 * BLOCK);
}

/* Then something else than small blocks is the reason. */
TEST(a_process_with_few_blocks_does_not_join)
{
        hold(40);
        heap_set_join(&set);
        ck_assert_uint_eq(planned_bytes(), 2 * BLOCK);
}

TESTS_MAIN("heap_set", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
