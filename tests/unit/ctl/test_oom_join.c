/* SPDX-License-Identifier: Apache-2.0 */
/* The output of gpumemctl why-oom for given statistics and rows. */

#include "base/err.h"
#include "base/size.h"
#include "ctl/query/oom_join.h"
#include "gpumem.h"
#include "tests/suite.h"

TEST(refusals_for_want_of_memory_are_told_from_others)
{
        static const struct {
                struct event_row row;
                bool is_it;
        } rows[] = {
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_REFUSED}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_LIMIT}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_STALLED}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_DRIVER}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_TOO_LARGE}, true},
                {{.event = 1,
                  .what = LISTED_EVENT_REFUSED,
                  .code = 9999,
                  .reason = PROTO_REFUSED_POOL_FULL},
                 true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_NO_POOL}, false},
                {{.event = 1, .what = LISTED_EVENT_DENIED, .code = GPUMEM_E_REFUSED}, false},
                {{.event = 0, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_REFUSED}, false},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
                ck_assert_msg(oom_is_of_memory(&rows[i].row) == rows[i].is_it, "row %u", i);
}

TEST(room_is_what_is_free_cached_or_idle)
{
        struct stats_row stats = {.max = 100,
                                  .leased = 60,
                                  .idle = 10,
                                  .lingering = 5,
                                  .cached = 20,
                                  .device_free = PROTO_FIGURE_UNKNOWN};

        ck_assert_uint_eq(oom_room(&stats), 45);
        stats.device_free = 7;
        ck_assert_uint_eq(oom_room(&stats), 37);
        /* The limit was lowered since, and statistics may be arbitrary. */
        stats.max = 40;
        ck_assert_uint_eq(oom_room(&stats), 0);
        stats.max = 100;
        stats.idle = UINT64_MAX;
        stats.device_free = PROTO_FIGURE_UNKNOWN;
        ck_assert_uint_eq(oom_room(&stats), 95);
}

TEST(a_driver_that_does_not_answer_makes_nothing)
{
        struct stats_row stats = {.max = 100,
                                  .leased = 60,
                                  .idle = 10,
                                  .cached = 20,
                                  .device_free = 40,
                                  .driver = PROTO_DRIVER_STALLED};

        ck_assert_uint_eq(oom_room(&stats), 30);
        stats.driver = PROTO_DRIVER_LOST;
        ck_assert_uint_eq(oom_room(&stats), 0);
}

TEST(requests_within_two_seconds_are_one_refusal)
{
        struct event_row rows[] = {
                {.event = 1, .pid = 1, .bytes = 64, .times = 1, .age = 9000, .first_age = 9000},
                {.event = 2, .pid = 1, .bytes = 1, .times = 1, .age = 5000, .first_age = 5000},
                {.event = 3, .pid = 2, .bytes = 2, .times = 1, .age = 4500, .first_age = 4500},
                {.event = 4, .pid = 1, .bytes = 3, .times = 2, .age = 4000, .first_age = 4400},
                {.event = 5, .pid = 1, .pool = 1, .times = 1, .age = 3900, .first_age = 3900},
                {.event = 6, .pid = 1, .bytes = 4, .times = 1, .age = 2900, .first_age = 2900},
        };

        ck_assert_uint_eq(oom_join(rows, ARRAY_SIZE(rows)), 5);
        ck_assert_uint_eq(rows[0].event, 1);
        ck_assert_uint_eq(rows[1].event, 3);
        ck_assert_uint_eq(rows[2].event, 4);
        ck_assert_uint_eq(rows[2].bytes, 3);
        ck_assert_uint_eq(rows[2].times, 3);
        ck_assert_uint_eq(rows[2].first_age, 5000);
        ck_assert_uint_eq(rows[3].event, 5);
        ck_assert_uint_eq(rows[4].event, 6);
}

TEST(refusals_for_another_reason_are_apart)
{
        struct event_row rows[] = {
                {.pid = 1, .code = GPUMEM_E_REFUSED, .reason = PROTO_REFUSED_POOL_FULL},
                {.pid = 1, .code = GPUMEM_E_LIMIT, .reason = PROTO_REFUSED_QUOTA},
                {.pid = 1, .code = GPUMEM_E_TIMED_OUT, .reason = PROTO_REFUSED_POOL_FULL},
                {.pid = 1, .code = GPUMEM_E_DRIVER},
                {.pid = 1, .code = GPUMEM_E_TOO_LARGE},
        };

        ck_assert_uint_eq(oom_join(rows, ARRAY_SIZE(rows)), 4);
        ck_assert_uint_eq(rows[0].reason, PROTO_REFUSED_QUOTA);
        ck_assert_uint_eq(rows[1].code, GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(rows[2].code, GPUMEM_E_DRIVER);
        ck_assert_uint_eq(rows[3].code, GPUMEM_E_TOO_LARGE);
}

/* As they have in a PID namespace that gpumemd does not see. */
TEST(refusals_without_a_pid_are_apart)
{
        struct event_row rows[] = {{.event = 1, .times = 1}, {.event = 2, .times = 1}};

        ck_assert_uint_eq(oom_join(rows, ARRAY_SIZE(rows)), 2);
}

TEST(a_refusal_has_the_smallest_and_the_largest_size)
{
        struct event_row rows[] = {
                {.pid = 1, .bytes = 6, .least = 6, .most = 9},
                {.pid = 1, .bytes = 2, .least = 2, .most = 2},
                {.pid = 1, .bytes = 4, .least = 4, .most = 4},
        };

        ck_assert_uint_eq(oom_join(rows, ARRAY_SIZE(rows)), 1);
        ck_assert_uint_eq(rows[0].bytes, 4);
        ck_assert_uint_eq(rows[0].least, 2);
        ck_assert_uint_eq(rows[0].most, 9);
}

TESTS_MAIN("oom_join")
