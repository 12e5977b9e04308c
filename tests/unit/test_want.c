/* What gpumemctl why-oom makes of figures and rows. */
#include <check.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/want.h"
#include "gpumem.h"
#include "tests/suite.h"

START_TEST(refusals_for_want_of_memory_are_told_from_others)
{
        static const struct {
                struct event_row row;
                bool is_it;
        } rows[] = {
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_REFUSED}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_LIMIT}, true},
                {{.event = 1, .what = LISTED_EVENT_REFUSED, .code = GPUMEM_E_STALLED}, true},
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
                ck_assert_msg(want_is_of_memory(&rows[i].row) == rows[i].is_it, "row %u", i);
}
END_TEST

START_TEST(room_is_what_is_free_cached_or_idle)
{
        struct stats_row stats = {.max = 100,
                                  .leased = 60,
                                  .idle = 10,
                                  .lingering = 5,
                                  .cached = 20,
                                  .device_free = PROTO_FIGURE_UNKNOWN};

        ck_assert_uint_eq(want_room(&stats), 45);
        stats.device_free = 7;
        ck_assert_uint_eq(want_room(&stats), 37);
        /* The limit was lowered since, and figures may be anything. */
        stats.max = 40;
        ck_assert_uint_eq(want_room(&stats), 0);
        stats.max = 100;
        stats.idle = UINT64_MAX;
        stats.device_free = PROTO_FIGURE_UNKNOWN;
        ck_assert_uint_eq(want_room(&stats), 95);
}
END_TEST

START_TEST(the_limit_that_leaves_least_is_in_the_way)
{
        const struct event_row refused = {.pid = 7, .uid = 3, .bytes = 50};
        struct limit_row rows[] = {
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_PINNED_BYTES, PROTO_LIMIT_OF_EACH, .max = 1},
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_OF_EACH, .max = 20},
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES, 3, .used = 70, .max = 100},
                {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_OF_EACH, .max = 40},
                {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_DEVICE_BYTES, 8, .used = 9, .max = 10},
        };

        ck_assert_ptr_eq(want_limit(rows, ARRAY_SIZE(rows), &refused, GPUMEM_DEVICE), &rows[2]);
        ck_assert_uint_eq(want_limit_room(&rows[2]), 30);
        rows[2].max = PROTO_LIMIT_NONE;
        ck_assert_ptr_eq(want_limit(rows, ARRAY_SIZE(rows), &refused, GPUMEM_DEVICE), &rows[3]);
        ck_assert_ptr_eq(want_limit(rows, ARRAY_SIZE(rows), &refused, GPUMEM_PINNED), &rows[0]);
        ck_assert_ptr_null(want_limit(rows, 0, &refused, GPUMEM_DEVICE));
}
END_TEST

START_TEST(the_largest_holders_are_named_and_others_added_up)
{
        const struct client_row clients[] = {
                {.pid = 5, .uid = 1, .program = "five"},
                {.pid = 2, .uid = 1, .program = "two"},
        };
        const struct block_row blocks[] = {
                {.pool = 1, .pid = 5, .uid = 1, .state = LISTED_LEASED, .bytes = 10},
                {.pool = 1, .pid = 2, .uid = 1, .state = LISTED_IDLE, .bytes = 20},
                {.pool = 1, .pid = 5, .uid = 1, .state = LISTED_LINGERING, .bytes = 30},
                {.pool = 0, .pid = 5, .uid = 1, .state = LISTED_LEASED, .bytes = 1000},
                {.pool = 1, .pid = 0, .uid = 1, .state = LISTED_CACHED, .bytes = 500},
                {.pool = 1, .pid = 7, .uid = 1, .state = LISTED_LEASED, .bytes = 3},
                {.pool = 1, .pid = 7, .uid = 2, .state = LISTED_LEASED, .bytes = 4},
                {.pool = 1, .pid = 8, .uid = 2, .state = LISTED_LEASED, .bytes = 2},
                {.pool = 1, .uid = LISTING_NOBODY, .state = LISTED_SUM, .bytes = 77},
        };
        const struct want_rows rows = {blocks, ARRAY_SIZE(blocks), clients, ARRAY_SIZE(clients)};
        struct want_holders holders;

        ck_assert_int_eq(want_find_holders(&rows, 1, &holders), 0);
        ck_assert_uint_eq(holders.n, WANT_N_HOLDERS);
        ck_assert_uint_eq(holders.largest[0].pid, 5);
        ck_assert_uint_eq(holders.largest[0].n_bytes, 40);
        ck_assert_str_eq(holders.largest[0].program, "five");
        ck_assert_uint_eq(holders.largest[1].pid, 2);
        ck_assert_str_eq(holders.largest[1].program, "two");
        ck_assert_uint_eq(holders.largest[2].pid, 7);
        ck_assert_uint_eq(holders.largest[2].uid, 2);
        ck_assert_str_eq(holders.largest[2].program, "?");
        ck_assert_uint_eq(holders.n_more_bytes, 5);
        ck_assert_uint_eq(holders.n_others_bytes, 77);
        ck_assert_int_eq(want_find_holders(&rows, 9, &holders), 0);
        ck_assert_uint_eq(holders.n, 0);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("want");
        TCase *tests = tcase_create("want");

        tcase_add_test(tests, refusals_for_want_of_memory_are_told_from_others);
        tcase_add_test(tests, room_is_what_is_free_cached_or_idle);
        tcase_add_test(tests, the_limit_that_leaves_least_is_in_the_way);
        tcase_add_test(tests, the_largest_holders_are_named_and_others_added_up);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
