/* SPDX-License-Identifier: Apache-2.0 */
/* pace: so many a second and no more, however they come; who reads nothing, for how long; and how often what does not
 * change is looked at. */
#include "daemon/ratelimit/pace.h"
#include "tests/suite.h"

#define SECOND UINT64_C(1000000000)
#define START  (1000 * SECOND)

static unsigned take_all(struct pace *pace, const struct pace_rule *rule, uint64_t now_ns)
{
        unsigned n = 0;

        for (; n < 100000 && pace_may(pace, rule, now_ns); n++)
                pace_take(pace, rule, now_ns);
        return n;
}

TEST(a_burst_is_two_seconds_worth)
{
        const struct pace_rule rule = pace_rule_of(10000);
        struct pace pace = {.full_ns = 0};

        ck_assert_uint_eq(take_all(&pace, &rule, START), 20000);
        ck_assert_uint_eq(take_all(&pace, &rule, START), 0);
        ck_assert_uint_eq(take_all(&pace, &rule, START + SECOND), 10000);
        ck_assert_uint_eq(take_all(&pace, &rule, START + 100 * SECOND), 20000);
}

TEST(over_time_there_are_so_many)
{
        const struct pace_rule rule = pace_rule_of(1000);
        struct pace pace = {.full_ns = 0};
        unsigned n = take_all(&pace, &rule, START);

        for (unsigned ms = 1; ms <= 10000; ms++)
                n += take_all(&pace, &rule, START + ms * SECOND / 1000);
        ck_assert_uint_eq(n, 2000 + 10000);
}

TEST(the_next_moment_is_foretold)
{
        const struct pace_rule rule = pace_rule_of(100);
        struct pace pace = {.full_ns = 0};
        uint64_t ready_ns;

        ck_assert_uint_eq(pace_ready_ns(&pace, &rule, START), START);
        (void)take_all(&pace, &rule, START);
        ready_ns = pace_ready_ns(&pace, &rule, START);
        ck_assert_uint_eq(ready_ns, START + SECOND / 100);
        ck_assert(!pace_may(&pace, &rule, ready_ns - 1));
        ck_assert(pace_may(&pace, &rule, ready_ns));
        ck_assert_uint_eq(take_all(&pace, &rule, ready_ns), 1);
}

TEST(what_is_owed_is_paid_first)
{
        const struct pace_rule rule = pace_rule_of(100);
        struct pace pace = {.full_ns = 0};

        (void)take_all(&pace, &rule, START);
        for (unsigned i = 0; i < 50; i++)
                pace_take(&pace, &rule, START);
        ck_assert_uint_eq(pace_ready_ns(&pace, &rule, START), START + 51 * SECOND / 100);
        ck_assert_uint_eq(take_all(&pace, &rule, START + SECOND), 50);
}

/* What was taken before counts by the new rule. */
TEST(a_pace_may_change)
{
        const struct pace_rule slow = pace_rule_of(10), fast = pace_rule_of(1000);
        struct pace pace = {.full_ns = 0};

        ck_assert_uint_eq(take_all(&pace, &slow, START), 20);
        ck_assert_uint_eq(take_all(&pace, &fast, START), 0);
        ck_assert_uint_eq(take_all(&pace, &fast, START + SECOND), 1000);
        ck_assert_uint_eq(take_all(&pace, &slow, START + SECOND), 0);
}

TEST(who_reads_is_not_stalled)
{
        struct stall stall;

        stall_begin(&stall, 100, START);
        ck_assert(!stall_is_over(&stall, 100, 5 * SECOND, START + 5 * SECOND - 1));
        ck_assert(stall_is_over(&stall, 100, 5 * SECOND, START + 5 * SECOND));
        ck_assert(!stall_is_over(&stall, 99, 5 * SECOND, START + 6 * SECOND));
        /* More to read is no reading. */
        ck_assert(!stall_is_over(&stall, 150, 5 * SECOND, START + 8 * SECOND));
        ck_assert(stall_is_over(&stall, 150, 5 * SECOND, START + 11 * SECOND));
        ck_assert(!stall_is_over(&stall, 120, 5 * SECOND, START + 12 * SECOND));
        ck_assert(!stall_is_over(&stall, 0, 5 * SECOND, START + 100 * SECOND));
        ck_assert(!stall_is_over(&stall, 0, 5 * SECOND, START + 200 * SECOND));
}

TEST(what_does_not_change_is_looked_at_less_often)
{
        struct backoff backoff;
        uint64_t at_ns = START, wait_ns = BACKOFF_MIN_NS;

        backoff_begin(&backoff, 7, START);
        for (unsigned i = 0; i < 10; i++) {
                ck_assert(!backoff_is_over(&backoff, at_ns + wait_ns - 1));
                at_ns += wait_ns;
                ck_assert(backoff_is_over(&backoff, at_ns));
                backoff_go_on(&backoff, 7, at_ns);
                wait_ns = wait_ns < BACKOFF_MAX_NS ? 2 * wait_ns : wait_ns;
        }
        ck_assert_uint_eq(wait_ns, BACKOFF_MAX_NS);
        /* More or less: it does again. */
        backoff_go_on(&backoff, 6, at_ns);
        ck_assert(backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
        backoff_go_on(&backoff, 6, at_ns);
        ck_assert(!backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
        backoff_go_on(&backoff, 7, at_ns);
        ck_assert(backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
}

TESTS_MAIN("pace")
