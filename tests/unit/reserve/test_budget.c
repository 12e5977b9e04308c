/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool may hold for a peak that fades. */
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/reserve/budget.h"
#include "tests/suite.h"

#define HALF BUDGET_HALF_LIFE_US
#define NOW  UINT64_C(1000000000)

static struct budget budget_with_peak(uint64_t n_bytes)
{
        struct budget budget = BUDGET_NULL;

        budget_see(&budget, n_bytes, NOW);
        return budget;
}

/* A little above the peak, and more before anybody waits. */
TEST(a_budget_is_the_peak_and_some_more)
{
        struct budget budget = budget_with_peak(32 * GIB);

        ck_assert_uint_eq(budget_bytes(&budget, GIB), 33 * GIB);
        ck_assert_uint_eq(budget_bytes(&budget, 32 * GIB), 33 * GIB);
        ck_assert_uint_eq(budget_hard_bytes(&budget), 32 * GIB + 32 * GIB / 12);
}

/* A program at work sees its budget again before a pause would begin. */
static void work(struct budget *budget, uint64_t n_allocated_bytes, uint64_t us)
{
        uint64_t until_us = budget->faded_at_us + us;

        while (until_us - budget->faded_at_us > BUDGET_PAUSE_US)
                budget_see(budget, n_allocated_bytes, budget->faded_at_us + BUDGET_PAUSE_US);
        budget_see(budget, n_allocated_bytes, until_us);
}

/* Of 9 GiB, 1 is needed: what is above that goes by half in a half-life. */
static const struct {
        uint64_t passed_us, n_peak_bytes;
} fade_rows[] = {
        {0, 9 * GIB},
        {HALF, 5 * GIB},
        {2 * HALF, 3 * GIB},
        {3 * HALF, 2 * GIB},
        {HALF / 2, GIB + UINT64_C(6074000999)}, /* 8 GiB / sqrt(2) */
        {100 * HALF, GIB},
};

TEST(a_peak_fades_by_half_lives, .to = ARRAY_SIZE(fade_rows))
{
        struct budget budget = budget_with_peak(9 * GIB);

        work(&budget, GIB, fade_rows[_i].passed_us);
        ck_assert_uint_ge(budget.n_peak_bytes + 1000, fade_rows[_i].n_peak_bytes);
        ck_assert_uint_le(budget.n_peak_bytes, fade_rows[_i].n_peak_bytes + 1);
        ck_assert_uint_eq(budget.faded_at_us, NOW + fade_rows[_i].passed_us);
}

/* After it, the program needs what it needed before: most of the peak and of the slack is left. */
static const uint64_t pause_rows[] = {BUDGET_PAUSE_US, BUDGET_PAUSE_US + 1, 300000, 60000000,
                                      UINT64_MAX - NOW};

TEST(a_pause_counts_little, .to = ARRAY_SIZE(pause_rows))
{
        struct budget budget = budget_with_peak(9 * GIB), shortly;

        for (unsigned i = 0; i < 400; i++)
                budget_return(&budget);
        shortly = budget;
        budget_see(&shortly, GIB, NOW + BUDGET_PAUSE_US);
        budget_see(&budget, GIB, NOW + pause_rows[_i]);
        ck_assert_uint_eq(budget.n_peak_bytes, shortly.n_peak_bytes);
        ck_assert_uint_eq(budget.n_slack_bytes, shortly.n_slack_bytes);
        ck_assert_uint_gt(budget.n_peak_bytes, 9 * GIB - 256 * MIB);
        ck_assert_uint_eq(budget.faded_at_us, NOW + pause_rows[_i]);
}

/* A program that works in bursts: 160 blocks go back in 5 ms, and then a second passes. */
TEST(returns_of_before_a_pause_count_too)
{
        struct budget budget = budget_with_peak(32 * GIB);

        for (unsigned burst = 1; burst <= 5; burst++) {
                ck_assert_uint_eq(budget.n_slack_bytes, 0);
                work(&budget, 32 * GIB, 5000);
                for (unsigned i = 0; i < 160; i++)
                        budget_return(&budget);
                budget_see(&budget, 32 * GIB, budget.faded_at_us + 1000000);
        }
        ck_assert_uint_gt(budget.n_slack_bytes, 0);
}

/* 300 at the beginning of each minute. */
TEST(a_long_pause_ends_what_was_before)
{
        struct budget budget = budget_with_peak(32 * GIB);

        for (unsigned minute = 0; minute < 100; minute++) {
                for (unsigned i = 0; i < 300; i++)
                        budget_return(&budget);
                budget_see(&budget, 32 * GIB, budget.faded_at_us + 60000000);
        }
        ck_assert_uint_eq(budget.n_slack_bytes, 0);
}

/* 40 in 15 ms of time that counts are fewer than one each 180 us. */
TEST(a_few_returns_before_each_pause_are_not_many)
{
        struct budget budget = budget_with_peak(32 * GIB);

        for (unsigned burst = 0; burst < 1000; burst++) {
                work(&budget, 32 * GIB, 5000);
                for (unsigned i = 0; i < 40; i++)
                        budget_return(&budget);
                budget_see(&budget, 32 * GIB, budget.faded_at_us + 1000000);
        }
        ck_assert_uint_eq(budget.n_slack_bytes, 0);
}

/* A clock that another thread read a little earlier. */
TEST(time_that_steps_back_fades_nothing)
{
        struct budget budget = budget_with_peak(9 * GIB);

        budget_see(&budget, GIB, NOW - 1000);
        ck_assert_uint_eq(budget.n_peak_bytes, 9 * GIB);
}

static const struct {
        uint64_t n_peak, n_empty_max, n_allocated, n_bytes;
} bound_rows[] = {
        {32 * GIB, UINT64_MAX, 0, 33 * GIB},
        {32 * GIB, 0, 0, 0},
        {32 * GIB, 0, GIB, GIB},
        {32 * GIB, 0, 32 * GIB, 32 * GIB},
        {32 * GIB, 512 * MIB, GIB, GIB + 512 * MIB},
        {32 * GIB, 512 * MIB, 32 * GIB, 32 * GIB + 512 * MIB},
        {32 * GIB, 2 * GIB, 32 * GIB, 33 * GIB},
        {32 * GIB, 32 * GIB, GIB, 33 * GIB},
        {32 * GIB, 33 * GIB, 0, 33 * GIB},
        {32 * GIB, 34 * GIB, 0, 33 * GIB},
};

TEST(empties_have_a_bound_of_their_own, .to = ARRAY_SIZE(bound_rows))
{
        struct budget budget = budget_with_peak(bound_rows[_i].n_peak);

        budget.n_empty_max = bound_rows[_i].n_empty_max;
        ck_assert_uint_eq(budget_bytes(&budget, bound_rows[_i].n_allocated),
                          bound_rows[_i].n_bytes);
}

/* As a loop does whose holes do not fit: a block goes back every few microseconds. */
TEST(what_goes_back_in_turn_may_be_kept)
{
        struct budget budget = budget_with_peak(32 * GIB);

        for (unsigned i = 0; i < 399; i++)
                budget_return(&budget);
        ck_assert_uint_eq(budget.n_slack_bytes, 0);
        budget_return(&budget);
        ck_assert_uint_eq(budget_bytes(&budget, 32 * GIB), 35 * GIB);
        for (unsigned i = 0; i < 20 * 400; i++)
                budget_return(&budget);
        ck_assert_uint_eq(budget_bytes(&budget, 32 * GIB), 65 * GIB);
        work(&budget, 32 * GIB, BUDGET_SLACK_HALF_LIFE_US);
        ck_assert_uint_ge(budget_bytes(&budget, 32 * GIB), 49 * GIB - 1000);
        ck_assert_uint_le(budget_bytes(&budget, 32 * GIB), 49 * GIB);
}

/* One each 360 us of the program's own time for ten seconds. */
TEST(what_goes_back_now_and_then_is_not_kept)
{
        struct budget budget = budget_with_peak(32 * GIB);
        uint64_t us = budget.faded_at_us;

        for (unsigned i = 0; i < 27777; i++) {
                us += 360;
                budget_see(&budget, 32 * GIB, us);
                budget_return(&budget);
        }
        ck_assert_uint_eq(budget.n_slack_bytes, 0);
}

TEST(blocks_are_a_part_of_the_peak_and_more_in_turns)
{
        struct budget budget = budget_with_peak(512 * MIB);

        ck_assert_uint_eq(budget_block_bytes(&budget), 512 * KIB);
        for (unsigned i = 0; i < 400; i++)
                budget_return(&budget);
        ck_assert_uint_eq(budget_block_bytes(&budget), 2 * MIB);
}

TEST(blocks_do_not_grow_for_ever)
{
        struct budget budget = budget_with_peak(16 * GIB);

        ck_assert_uint_eq(budget_block_bytes(&budget), 16 * MIB);
        budget_see(&budget, 64 * GIB, NOW);
        ck_assert_uint_eq(budget_block_bytes(&budget), 16 * MIB);
        for (unsigned i = 0; i < 4000; i++)
                budget_return(&budget);
        ck_assert_uint_eq(budget_block_bytes(&budget), 32 * MIB);
}

/* A loop is loosened by little, and not for ever. */
TEST(a_loop_may_hold_an_eighth_more)
{
        struct budget budget = budget_with_peak(32 * GIB);

        budget_loosen(&budget);
        ck_assert_uint_eq(budget.n_slack_bytes, GIB / 2);
        for (unsigned i = 0; i < 100; i++)
                budget_loosen(&budget);
        ck_assert_uint_eq(budget.n_slack_bytes, 4 * GIB);
}

TEST(a_longer_half_life_keeps_a_peak_for_longer)
{
        struct budget budget = budget_with_peak(9 * GIB);

        budget.half_life_us = 2 * HALF;
        work(&budget, GIB, 2 * HALF);
        ck_assert_uint_le(budget.n_peak_bytes, 5 * GIB + MIB);
        ck_assert_uint_ge(budget.n_peak_bytes, 5 * GIB - MIB);
}

TESTS_MAIN("budget", .limit_s = UNLIMITED)
