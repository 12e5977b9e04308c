/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of EVENTS are shown. */
#include "ctl/query/event_rows.h"

#include <string.h>

#include "base/err.h"
#include "tests/suite.h"

#define N_ROWS 5

/* Rows of two clients of one user, of another user, and a sum. */
static struct event_row rows[N_ROWS];
static struct event_rows event_rows;

static void set_up(void)
{
        const struct event_row all[N_ROWS] = {
                {.event = 10, .what = LISTED_EVENT_GRANTED, .uid = 1, .pid = 100},
                {.event = 11, .what = LISTED_EVENT_GRANTED, .uid = 1, .pid = 101},
                {.event = 12, .what = LISTED_EVENT_REFUSED, .uid = 0, .pid = 102},
                {.event = 13, .what = LISTED_EVENT_HEALTH, .uid = LISTING_NOBODY},
                {.event = 0, .what = LISTED_EVENT_GRANTED, .uid = LISTING_NOBODY, .times = 7},
        };

        memcpy(rows, all, sizeof(rows));
        event_rows = (struct event_rows){.rows = rows, .n = N_ROWS};
}

/* So many rows are left, with these numbers. */
static void expect(const struct event_rows_choice *choice, uint32_t n, const uint64_t *events)
{
        set_up();
        event_rows_choose(&event_rows, choice);
        ck_assert_uint_eq(event_rows.n, n);
        for (uint32_t i = 0; i < n; i++)
                ck_assert_uint_eq(rows[i].event, events[i]);
}

TEST(who_wants_nothing_apart_has_all)
{
        const struct event_rows_choice choice = {.pid = 0};

        expect(&choice, 5, (const uint64_t[]){10, 11, 12, 13, 0});
}

TEST(processes_and_users_are_told_apart)
{
        const struct event_rows_choice of_process = {.pid = 101};
        const struct event_rows_choice of_user = {.has_uid = true, .uid = 1};
        const struct event_rows_choice of_root = {.has_uid = true, .uid = 0};
        const struct event_rows_choice of_neither = {.pid = 102, .has_uid = true, .uid = 1};

        expect(&of_process, 1, (const uint64_t[]){11});
        expect(&of_user, 2, (const uint64_t[]){10, 11});
        expect(&of_root, 1, (const uint64_t[]){12});
        expect(&of_neither, 0, NULL);
}

TEST(the_last_are_those_of_what_is_wanted_and_no_sums)
{
        const struct event_rows_choice last = {.last = 2};
        const struct event_rows_choice last_of_user = {.last = 1, .has_uid = true, .uid = 1};
        const struct event_rows_choice more = {.last = 9};

        expect(&last, 2, (const uint64_t[]){12, 13});
        expect(&last_of_user, 1, (const uint64_t[]){11});
        expect(&more, 4, (const uint64_t[]){10, 11, 12, 13});
}

TEST(kinds_are_called_as_in_the_table)
{
        char list[EVENT_ROWS_KINDS_MAX];

        ck_assert_uint_eq(event_rows_kind("granted"), EVENT_ROWS_BIT(GRANTED));
        ck_assert_uint_eq(event_rows_kind("turned away"), EVENT_ROWS_BIT(TURNED_AWAY));
        ck_assert_uint_eq(event_rows_kind("turned-away"), EVENT_ROWS_BIT(TURNED_AWAY));
        ck_assert_uint_eq(event_rows_kind("turned"), 0);
        ck_assert_uint_eq(event_rows_kind("grantedly"), 0);
        ck_assert_uint_eq(event_rows_kind(""), 0);
        event_rows_list_kinds(list);
        ck_assert_ptr_eq(strstr(list, "connected, ended, "), list);
        ck_assert_ptr_nonnull(strstr(list, ", turned-away, "));
        ck_assert_str_eq(list + strlen(list) - strlen(", stopping"), ", stopping");
}

TEST(an_end_is_told_by_its_event)
{
        set_up();
        ck_assert(!event_rows_has_end(&event_rows));
        rows[2].what = LISTED_EVENT_STOPPING;
        ck_assert(event_rows_has_end(&event_rows));
}

TESTS_MAIN("chosen")
