/* SPDX-License-Identifier: Apache-2.0 */
/* token_bucket: so many requests a second and no more, in whatever order they come. */
#include "daemon/ratelimit/token_bucket.h"
#include "tests/suite.h"

#define SECOND UINT64_C(1000000000)
#define START  (1000 * SECOND)

static unsigned take_all(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                         uint64_t now_ns)
{
        unsigned n = 0;

        for (; n < 100000 && token_bucket_has_one(bucket, rule, now_ns); n++)
                token_bucket_take(bucket, rule, now_ns);
        return n;
}

TEST(a_burst_is_two_seconds_worth)
{
        const struct token_bucket_rule rule = token_bucket_rule_of(10000);
        struct token_bucket bucket = {.full_ns = 0};

        ck_assert_uint_eq(take_all(&bucket, &rule, START), 20000);
        ck_assert_uint_eq(take_all(&bucket, &rule, START), 0);
        ck_assert_uint_eq(take_all(&bucket, &rule, START + SECOND), 10000);
        ck_assert_uint_eq(take_all(&bucket, &rule, START + 100 * SECOND), 20000);
}

TEST(over_time_there_are_so_many)
{
        const struct token_bucket_rule rule = token_bucket_rule_of(1000);
        struct token_bucket bucket = {.full_ns = 0};
        unsigned n = take_all(&bucket, &rule, START);

        for (unsigned ms = 1; ms <= 10000; ms++)
                n += take_all(&bucket, &rule, START + ms * SECOND / 1000);
        ck_assert_uint_eq(n, 2000 + 10000);
}

TEST(the_next_moment_is_foretold)
{
        const struct token_bucket_rule rule = token_bucket_rule_of(100);
        struct token_bucket bucket = {.full_ns = 0};
        uint64_t ready_ns;

        ck_assert_uint_eq(token_bucket_ready_ns(&bucket, &rule, START), START);
        (void)take_all(&bucket, &rule, START);
        ready_ns = token_bucket_ready_ns(&bucket, &rule, START);
        ck_assert_uint_eq(ready_ns, START + SECOND / 100);
        ck_assert(!token_bucket_has_one(&bucket, &rule, ready_ns - 1));
        ck_assert(token_bucket_has_one(&bucket, &rule, ready_ns));
        ck_assert_uint_eq(take_all(&bucket, &rule, ready_ns), 1);
}

TEST(what_is_owed_is_paid_first)
{
        const struct token_bucket_rule rule = token_bucket_rule_of(100);
        struct token_bucket bucket = {.full_ns = 0};

        (void)take_all(&bucket, &rule, START);
        for (unsigned i = 0; i < 50; i++)
                token_bucket_take(&bucket, &rule, START);
        ck_assert_uint_eq(token_bucket_ready_ns(&bucket, &rule, START), START + 51 * SECOND / 100);
        ck_assert_uint_eq(take_all(&bucket, &rule, START + SECOND), 50);
}

/* Tokens taken earlier count by the new rule. */
TEST(a_rule_may_change)
{
        const struct token_bucket_rule slow = token_bucket_rule_of(10),
                                       fast = token_bucket_rule_of(1000);
        struct token_bucket bucket = {.full_ns = 0};

        ck_assert_uint_eq(take_all(&bucket, &slow, START), 20);
        ck_assert_uint_eq(take_all(&bucket, &fast, START), 0);
        ck_assert_uint_eq(take_all(&bucket, &fast, START + SECOND), 1000);
        ck_assert_uint_eq(take_all(&bucket, &slow, START + SECOND), 0);
}

TESTS_MAIN("token_bucket")
