/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, as a person writes them. */
#include "ctl/output/parse.h"

#include <errno.h>

#include "base/err.h"
#include "tests/suite.h"

TEST(seconds_may_have_parts)
{
        static const struct {
                const char *text;
                uint64_t ms;
        } good[] = {
                {"0", 0},        {"1", 1000},
                {"0.1", 100},    {"2.5", 2500},
                {"0.25", 250},   {"0.001", 1},
                {"007", 7000},   {"3600", 3600000},
                {"1.000", 1000}, {"4294967", 4294967000},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
                uint64_t ms = 1;

                ck_assert_int_eq(parse_milliseconds(good[i].text, &ms), 0);
                ck_assert_uint_eq(ms, good[i].ms);
        }
}

TEST(other_seconds_are_refused)
{
        static const char *const bad[] = {
                "",      ".",   "1.",  ".5",     "1..5",
                "1.5.5", "-1",  "+1",  " 1",     "1 ",
                "1s",    "0x1", "1e3", "0.1234", "99999999999999999999",
                "1.-1",
        };

        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                uint64_t ms = 77;

                ck_assert_int_eq(parse_milliseconds(bad[i], &ms), -EINVAL);
                ck_assert_uint_eq(ms, 77);
        }
}

TEST(a_number_is_digits)
{
        uint64_t number = 77;

        ck_assert_int_eq(parse_number("18446744073709551616", &number), -EINVAL);
        ck_assert_int_eq(parse_number("-1", &number), -EINVAL);
        ck_assert_int_eq(parse_number("1.5", &number), -EINVAL);
        ck_assert_uint_eq(number, 77);
        ck_assert_int_eq(parse_number("18446744073709551615", &number), 0);
        ck_assert_uint_eq(number, UINT64_MAX);
}

TESTS_MAIN("parse")
