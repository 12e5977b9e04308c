/* SPDX-License-Identifier: Apache-2.0 */
/* How long blocks stay in their heap before they are idle: a loop that would miss them keeps them. */
#include "base/err.h"
#include "base/size.h"
#include "client/reserve/idle_patience.h"
#include "tests/suite.h"
#include "tests/unit/reserve/heap_set_world.h"

#define MS    UINT64_C(1000)
#define START UINT64_C(1000000000)

static struct idle_patience patience;
static uint64_t now_us;

static void start(void)
{
        patience = (struct idle_patience){.us = 0};
        now_us = START;
}

/* Blocks go, and so long afterwards a request misses them. */
static void go_and_miss(unsigned n_times, uint64_t after_us)
{
        for (unsigned i = 0; i < n_times; i++) {
                idle_patience_put(&patience, now_us);
                now_us += after_us;
                (void)idle_patience_miss(&patience, now_us);
        }
}

TEST(each_look_marks_at_first)
{
        ck_assert(idle_patience_is_over(&patience, now_us));
        idle_patience_mark(&patience, now_us);
        ck_assert(idle_patience_is_over(&patience, now_us));
}

TEST(misses_of_what_has_just_gone_double_it)
{
        uint64_t before_us;

        go_and_miss(IDLE_PATIENCE_MISSES - 1, 10 * MS);
        ck_assert_uint_eq(patience.us, 0);
        go_and_miss(1, 10 * MS);
        ck_assert_uint_gt(patience.us, 0);
        before_us = patience.us;
        go_and_miss(IDLE_PATIENCE_MISSES, 10 * MS);
        ck_assert_uint_eq(patience.us, 2 * before_us);
}

TEST(between_two_marks_it_passes)
{
        go_and_miss(IDLE_PATIENCE_MISSES, 10 * MS);
        idle_patience_mark(&patience, now_us);
        ck_assert(!idle_patience_is_over(&patience, now_us));
        ck_assert(!idle_patience_is_over(&patience, now_us + patience.us - 1));
        ck_assert(idle_patience_is_over(&patience, now_us + patience.us));
}

TEST(it_has_an_end)
{
        go_and_miss(100 * IDLE_PATIENCE_MISSES, MS);
        ck_assert_uint_eq(patience.us, IDLE_PATIENCE_MAX_US);
}

/* Several misses for the sake of one mark are one. */
TEST(only_misses_after_blocks_went_count)
{
        idle_patience_put(&patience, now_us);
        for (unsigned i = 0; i < 10 * IDLE_PATIENCE_MISSES; i++)
                ck_assert(!idle_patience_miss(&patience, now_us));
        ck_assert_uint_eq(patience.us, 0);
}

TEST(a_loop_that_misses_all_the_same_needs_more_memory)
{
        unsigned n_told = 0;

        go_and_miss(IDLE_PATIENCE_MISSES, 10 * MS);
        for (unsigned i = 0; i < 3 * IDLE_PATIENCE_MISSES; i++) {
                now_us += 10 * MS;
                n_told += idle_patience_miss(&patience, now_us);
        }
        ck_assert_uint_eq(n_told, 3);
}

TEST(after_a_long_time_a_miss_begins_the_count_again)
{
        go_and_miss(IDLE_PATIENCE_MISSES - 1, 10 * MS);
        go_and_miss(1, 1000 * MS);
        go_and_miss(IDLE_PATIENCE_MISSES - 1, 10 * MS);
        ck_assert_uint_eq(patience.us, 0);
}

TEST(the_need_of_others_ends_it)
{
        go_and_miss(3 * IDLE_PATIENCE_MISSES, 10 * MS);
        idle_patience_mark(&patience, now_us);
        idle_patience_end(&patience);
        ck_assert(idle_patience_is_over(&patience, now_us));
        go_and_miss(IDLE_PATIENCE_MISSES - 1, 10 * MS);
        ck_assert_uint_eq(patience.us, 0);
}

static const struct test_case in_a_set = {
        .name = "idle_patience, of a set", .start = begin_joined, .stop = end};

/* In rounds, a block goes to the idle list and a request of n_bytes finds no place. */
static void miss_in_rounds(uint64_t n_bytes)
{
        for (unsigned i = 0; i < IDLE_PATIENCE_MISSES; i++) {
                put_idle();
                heap_set_note_miss(&set, n_bytes, MS);
                ck_assert(reuse(BLOCK));
        }
}

/* What exceeds all that is held must be leased in any case. */
TEST(growth_is_no_miss, .in = &in_a_set)
{
        (void)add(0, 0, BLOCK);
        heap_set_count(&set, BLOCK);
        miss_in_rounds(BLOCK + MIB);
        ck_assert_uint_eq(set.patience.us, 0);
}

TEST(a_request_that_all_there_is_would_hold_is_one, .in = &in_a_set)
{
        (void)add(0, 0, BLOCK);
        heap_set_count(&set, BLOCK);
        miss_in_rounds(BLOCK);
        ck_assert_uint_gt(set.patience.us, 0);
}

/* The request needs one of them. */
TEST(after_a_pause_a_loop_gets_all_back, .in = &in_a_set)
{
        struct heap_block *a = add(0, 0, BLOCK), *b = add(0, 4 * BLOCK, BLOCK);

        put_idle();
        ck_assert(!heap_set_recall_loop(&set, &heaps[0], BLOCK));
        expect_idle(a);
        set.patience.us = MS;
        set.n_heaps = 1;
        ck_assert(heap_set_recall_loop(&set, &heaps[0], BLOCK));
        check_all();
        expect_in(0, a);
        expect_in(0, b);
        put_idle();
        ck_assert(!heap_set_recall_loop(&set, &heaps[0], 2 * BLOCK));
        put_idle();
        set.n_heaps = ARRAY_SIZE(heaps);
        ck_assert(!heap_set_recall_loop(&set, &heaps[0], BLOCK));
        expect_idle(a);
}

TESTS_MAIN("idle_patience", .start = start)
