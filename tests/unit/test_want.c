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
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_PINNED_BYTES, PROTO_LIMIT_OF_EACH, .max = 10},
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_OF_EACH, .max = 20},
                {PROTO_LIMIT_OF_TENANT, PROTO_LIMIT_DEVICE_BYTES, 3, .used = 70, .max = 100},
                {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_OF_EACH, .max = 40},
                {PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_DEVICE_BYTES, 8, .used = 9, .max = 10},
        };

        const struct client_row clients[] = {
                {.pid = 8, .uid = 3, .device_charged = 1, .pinned_charged = 2},
                {.pid = 7, .uid = 3, .device_charged = 25},
                {.pid = 7, .uid = 4, .pinned_charged = 5},
        };
        const struct block_row blocks[] = {
                {.pid = 7, .uid = 3, .state = LISTED_LEASED, .blocks = 1},
                {.pid = 7, .uid = 3, .state = LISTED_IDLE, .blocks = 1},
                {.pid = 8, .uid = 3, .state = LISTED_LEASED, .blocks = 1},
        };
        struct want_rows all = {blocks, ARRAY_SIZE(blocks), clients, ARRAY_SIZE(clients),
                                rows,   ARRAY_SIZE(rows)};
        struct want_limit limit = want_limit(&all, &refused, PROTO_LIMIT_DEVICE_BYTES);

        /* Of a default what is used is the client's own. */
        ck_assert_ptr_eq(limit.row, &rows[3]);
        ck_assert_uint_eq(limit.room, 40 - 25);
        rows[3].max = PROTO_LIMIT_NONE;
        limit = want_limit(&all, &refused, PROTO_LIMIT_DEVICE_BYTES);
        ck_assert_ptr_eq(limit.row, &rows[2]);
        ck_assert_uint_eq(limit.room, 30);
        limit = want_limit(&all, &refused, PROTO_LIMIT_PINNED_BYTES);
        ck_assert_ptr_eq(limit.row, &rows[0]);
        ck_assert_uint_eq(limit.room, 10 - 2);
        rows[4].kind = PROTO_LIMIT_LEASES;
        rows[4].holder = PROTO_LIMIT_OF_EACH;
        rows[4].max = 2;
        limit = want_limit(&all, &refused, PROTO_LIMIT_LEASES);
        ck_assert_ptr_eq(limit.row, &rows[4]);
        ck_assert_uint_eq(limit.room, 0);
        all.n_limits = 0;
        ck_assert_ptr_null(want_limit(&all, &refused, PROTO_LIMIT_DEVICE_BYTES).row);
}
END_TEST

START_TEST(requests_within_two_seconds_are_one_refusal)
{
        struct event_row rows[] = {
                {.event = 1, .pid = 1, .bytes = 64, .times = 1, .age = 9000, .first_age = 9000},
                {.event = 2, .pid = 1, .bytes = 1, .times = 1, .age = 5000, .first_age = 5000},
                {.event = 3, .pid = 2, .bytes = 2, .times = 1, .age = 4500, .first_age = 4500},
                {.event = 4, .pid = 1, .bytes = 3, .times = 2, .age = 4000, .first_age = 4400},
                {.event = 5, .pid = 1, .pool = 1, .times = 1, .age = 3900, .first_age = 3900},
                {.event = 6, .pid = 1, .bytes = 4, .times = 1, .age = 2900, .first_age = 2900},
        };

        ck_assert_uint_eq(want_join(rows, ARRAY_SIZE(rows)), 5);
        ck_assert_uint_eq(rows[0].event, 1);
        ck_assert_uint_eq(rows[1].event, 3);
        ck_assert_uint_eq(rows[2].event, 4);
        ck_assert_uint_eq(rows[2].bytes, 3);
        ck_assert_uint_eq(rows[2].times, 3);
        ck_assert_uint_eq(rows[2].first_age, 5000);
        ck_assert_uint_eq(rows[3].event, 5);
        ck_assert_uint_eq(rows[4].event, 6);
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
        const struct want_rows rows = {
                blocks, ARRAY_SIZE(blocks), clients, ARRAY_SIZE(clients), NULL, 0};
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
        tcase_add_test(tests, requests_within_two_seconds_are_one_refusal);
        tcase_add_test(tests, the_largest_holders_are_named_and_others_added_up);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
