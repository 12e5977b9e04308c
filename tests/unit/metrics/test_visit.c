/* SPDX-License-Identifier: Apache-2.0 */
/* How long a connection may take. */
#include "metrics/visit.h"

#include "tests/suite.h"

#define SINCE_MS 1000000
#define WAIT_MS  5000

static uint64_t time_of(enum visit_state state, enum visit_places places)
{
        struct visit visit = {.state = state, .since_ms = SINCE_MS};
        uint64_t deadline_ms = visit_deadline_ms(&visit, places, WAIT_MS);

        return deadline_ms == UINT64_MAX ? deadline_ms : deadline_ms - SINCE_MS;
}

TEST(who_is_slow_is_hurried_while_others_wait)
{
        ck_assert_uint_eq(time_of(VISIT_READING, VISIT_PLACES_FREE), 1000);
        ck_assert_uint_eq(time_of(VISIT_READING, VISIT_PLACES_TAKEN), 100);
        ck_assert_uint_eq(time_of(VISIT_WRITING, VISIT_PLACES_FREE), 5000);
        ck_assert_uint_eq(time_of(VISIT_WRITING, VISIT_PLACES_TAKEN), 500);
}

TEST(who_waits_for_the_daemon_is_not)
{
        ck_assert_uint_eq(time_of(VISIT_WAITING, VISIT_PLACES_FREE), WAIT_MS);
        ck_assert_uint_eq(time_of(VISIT_WAITING, VISIT_PLACES_TAKEN), WAIT_MS);
}

TEST(what_is_done_has_no_deadline)
{
        static const enum visit_state states[] = {VISIT_SERVED, VISIT_LEFT, VISIT_CUT};

        for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
                ck_assert(time_of(states[i], VISIT_PLACES_FREE) == UINT64_MAX);
                ck_assert(time_of(states[i], VISIT_PLACES_TAKEN) == UINT64_MAX);
        }
}

TESTS_MAIN("visit")
