/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a list are shown, and in which order. */
#include "ctl/query/filter.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/output/parse.h"
#include "tests/suite.h"

#define N_ROWS 5

/* In no order, as gpumemd lists them. */
static const struct block_row some_blocks[N_ROWS] = {
        {.block = 0, .state = LISTED_SUM, .uid = LISTING_NOBODY, .bytes = 64 * MIB, .blocks = 9},
        {.block = 4, .state = LISTED_LEASED, .uid = 8, .pid = 80, .bytes = 8 * MIB, .blocks = 1},
        {.block = 1, .state = LISTED_LEASED, .uid = 7, .pid = 70, .bytes = 4 * MIB, .blocks = 1},
        {.block = 3, .state = LISTED_IDLE, .uid = 7, .pid = 71, .bytes = 2 * MIB, .blocks = 1},
        {.block = 2, .state = LISTED_CACHED, .uid = 8, .pid = 0, .bytes = 2 * MIB, .blocks = 1},
};

/* The filter shows these blocks in its order; 0 ends the list, or is the sum. */
static void expect_blocks(const struct filter *filter, const uint64_t *wanted, uint32_t n_wanted)
{
        struct block_row rows[N_ROWS];
        uint32_t n = 77;

        memcpy(rows, some_blocks, sizeof(rows));
        ck_assert_int_eq(filter_apply(filter, &block_row_list, (char *)rows, N_ROWS, &n), 0);
        ck_assert_uint_eq(n, n_wanted);
        for (uint32_t i = 0; i < n; i++)
                ck_assert_uint_eq(rows[i].block, wanted[i]);
}

#define EXPECT(filter, ...)                                    \
        expect_blocks(filter, (const uint64_t[]){__VA_ARGS__}, \
                      ARRAY_SIZE(((const uint64_t[]){__VA_ARGS__})))

TEST(nothing_said_shows_all_by_the_columns_from_the_left)
{
        struct filter filter = {.n_rules = 0};

        EXPECT(&filter, 1, 2, 3, 4, 0);
        filter.is_reverse = true;
        EXPECT(&filter, 0, 4, 3, 2, 1);
}

TEST(filters_hold_together)
{
        struct filter filter = {.n_rules = 0};

        filter_add(&filter, &block_row_list, "uid", FILTER_EQUAL, 7);
        EXPECT(&filter, 1, 3);
        filter_add(&filter, &block_row_list, "state", FILTER_EQUAL, LISTED_IDLE);
        EXPECT(&filter, 3);
        filter_add(&filter, &block_row_list, "pid", FILTER_EQUAL, 70);
        expect_blocks(&filter, NULL, 0);
}

TEST(the_last_word_about_a_field_holds)
{
        struct filter filter = {.n_rules = 0};

        for (unsigned i = 0; i < 3 * FILTER_RULES_MAX; i++)
                filter_add(&filter, &block_row_list, "uid", FILTER_EQUAL, i);
        filter_add(&filter, &block_row_list, "uid", FILTER_EQUAL, 8);
        EXPECT(&filter, 2, 4);
}

TEST(at_least_takes_what_is_equal)
{
        struct filter filter = {.n_rules = 0};

        filter_add(&filter, &block_row_list, "bytes", FILTER_AT_LEAST, 4 * MIB);
        EXPECT(&filter, 1, 4, 0);
        filter_add(&filter, &block_row_list, "blocks", FILTER_EQUAL, 1);
        EXPECT(&filter, 1, 4);
}

TEST(amounts_are_sorted_with_the_largest_first)
{
        struct filter filter = {.n_rules = 0};

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "size"), 0);
        EXPECT(&filter, 0, 4, 1, 2, 3);
        filter.is_reverse = true;
        EXPECT(&filter, 3, 2, 1, 4, 0);
}

TEST(numbers_that_name_are_sorted_with_the_smallest_first)
{
        struct filter filter = {.n_rules = 0};

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "pid"), 0);
        EXPECT(&filter, 1, 3, 4, 2, 0);
        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "uid"), 0);
        EXPECT(&filter, 1, 3, 2, 4, 0);
        filter.is_reverse = true;
        EXPECT(&filter, 0, 4, 2, 3, 1);
}

TEST(what_others_do_not_tell_is_the_smallest_amount)
{
        struct filter filter = {.n_rules = 0};
        struct block_row rows[] = {{.block = 0, .age = LISTING_UNTOLD}, {.block = 1, .age = 5}};
        uint32_t n;

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "age"), 0);
        ck_assert_int_eq(filter_apply(&filter, &block_row_list, (char *)rows, 2, &n), 0);
        ck_assert_uint_eq(rows[0].block, 1);
}

TEST(states_are_sorted_by_what_they_are_called)
{
        struct filter filter = {.n_rules = 0};

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "State"), 0);
        EXPECT(&filter, 2, 3, 1, 4, 0);
}

TEST(texts_are_sorted_as_texts)
{
        struct filter filter = {.n_rules = 0};
        struct client_row rows[] = {
                {.pid = 1, .program = "b"}, {.pid = 2, .program = ""}, {.pid = 3, .program = "a"}};
        uint32_t n;

        memset(rows[0].program + 1, 'x', sizeof(rows[0].program) - 1);
        ck_assert_int_eq(filter_set_sort(&filter, &client_row_list, "PROGRAM"), 0);
        ck_assert_int_eq(filter_apply(&filter, &client_row_list, (char *)rows, 3, &n), 0);
        ck_assert_uint_eq(rows[0].pid, 2);
        ck_assert_uint_eq(rows[1].pid, 3);
        ck_assert_uint_eq(rows[2].pid, 1);
}

TEST(rows_that_are_alike_where_they_are_sorted_stand_by_the_columns_from_the_left)
{
        struct filter filter = {.n_rules = 0};
        struct tenant_row rows[] = {{.uid = 8, .pool = 1, .reserved = MIB},
                                    {.uid = 8, .pool = 0, .reserved = MIB},
                                    {.uid = 7, .pool = 1, .reserved = MIB}};
        uint32_t n;

        ck_assert_int_eq(filter_set_sort(&filter, &tenant_row_list, "reserved"), 0);
        ck_assert_int_eq(filter_apply(&filter, &tenant_row_list, (char *)rows, 3, &n), 0);
        ck_assert_uint_eq(rows[0].uid, 7);
        ck_assert_uint_eq(rows[1].pool, 0);
        ck_assert_uint_eq(rows[2].pool, 1);
}

TEST(no_rows_are_no_rows)
{
        struct filter filter = {.n_rules = 0};
        uint32_t n = 77;

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "size"), 0);
        ck_assert_int_eq(filter_apply(&filter, &block_row_list, NULL, 0, &n), 0);
        ck_assert_uint_eq(n, 0);
}

/* A field that the table does not show is not a column. */
TEST(columns_are_those_of_the_table)
{
        struct filter filter = {.n_rules = 0};
        char text[256], little[8];

        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, "blocks"), -EINVAL);
        ck_assert_int_eq(filter_set_sort(&filter, &block_row_list, ""), -EINVAL);
        ck_assert_ptr_null(filter.sort);
        filter_list_columns(&block_row_list, text, sizeof(text));
        ck_assert_str_eq(text, "block, pool, kind, state, properties, uid, pid, holders, size, "
                               "lease, age, in-state");
        filter_list_columns(&block_row_list, little, sizeof(little));
        ck_assert_str_eq(little, "block, ");
}

TEST(numbers_and_users_are_themselves_only)
{
        static const char *const wrong[] = {"", "x", "-1", "1x", " 1", "18446744073709551616"};
        uint64_t number = 77;
        uint32_t uid = 77;

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
                ck_assert_int_eq(parse_number(wrong[i], &number), -EINVAL);
                ck_assert_int_eq(parse_user(wrong[i], &uid), -EINVAL);
        }
        /* The uid that stands for "no user". */
        ck_assert_int_eq(parse_user("4294967295", &uid), -EINVAL);
        ck_assert_uint_eq(number, 77);
        ck_assert_uint_eq(uid, 77);
        ck_assert_int_eq(parse_number("18446744073709551615", &number), 0);
        ck_assert_uint_eq(number, UINT64_MAX);
        ck_assert_int_eq(parse_user("root", &uid), 0);
        ck_assert_uint_eq(uid, 0);
        ck_assert_int_eq(parse_user("4294967294", &uid), 0);
        ck_assert_uint_eq(uid, 4294967294);
}

TESTS_MAIN("filter")
