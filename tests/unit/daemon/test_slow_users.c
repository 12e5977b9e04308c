/* SPDX-License-Identifier: Apache-2.0 */
/* Which users count as slow, and until when. */
#include "daemon/fairness/slow_users.h"

#include "base/clock.h"
#include "tests/suite.h"

#define ALICE 1000
#define BOB   1001

static struct slow_users users;

static void start(void)
{
        users = (struct slow_users){.n = 0};
}

static void become_slow(uint64_t owner, uint64_t now_ns)
{
        while (!slow_users_note(&users, owner, SLOW_USER_NS + 1, now_ns))
                continue;
}

static bool is_slow(uint64_t owner, uint64_t now_ns)
{
        int place = slow_users_find(&users, owner);

        return place >= 0 && slow_users_is_slow(&users, place, now_ns);
}

TEST(what_a_step_may_take_is_no_long_call)
{
        ck_assert(!slow_users_suspect(PAYER_STEP_MAX_NS));
        ck_assert(slow_users_suspect(PAYER_STEP_MAX_NS + 1));
}

/* Few may be long by chance. */
TEST(some_very_long_calls_make_their_user_slow_and_no_other)
{
        for (unsigned i = 1; i < SLOW_USER_CALLS; i++)
                ck_assert(!slow_users_note(&users, ALICE, SLOW_USER_NS + 1, NS_PER_S));
        ck_assert(!is_slow(ALICE, NS_PER_S));
        ck_assert(slow_users_note(&users, ALICE, SLOW_USER_NS + 1, NS_PER_S));
        ck_assert(is_slow(ALICE, NS_PER_S));
        ck_assert(!is_slow(BOB, NS_PER_S));
}

TEST(several_long_calls_add_up)
{
        for (unsigned i = 0; i < 5; i++)
                ck_assert(!slow_users_note(&users, ALICE, SLOW_USER_NS / 5, NS_PER_S));
        ck_assert(slow_users_note(&users, ALICE, SLOW_USER_NS / 5, NS_PER_S));
        ck_assert(is_slow(ALICE, NS_PER_S));
}

/* So they do only within a time. */
TEST(rare_ones_do_not)
{
        for (uint64_t now_ns = NS_PER_S; now_ns < 1000 * NS_PER_S; now_ns += NS_PER_S / 2)
                ck_assert(!slow_users_note(&users, ALICE, NS_PER_MS / 2, now_ns));
}

/* One whose number ends alike neither makes another slow nor has its calls forgiven. */
TEST(each_has_a_sum_of_its_own)
{
        for (uint64_t i = 0; i < (SLOW_USER_CALLS - 1) * SLOW_USERS_EACH; i++)
                (void)slow_users_note(&users, i % SLOW_USERS_EACH * SLOW_USERS_ROWS, SLOW_USER_NS,
                                      NS_PER_S);
        for (uint64_t i = 0; i < SLOW_USERS_EACH; i++)
                ck_assert(!is_slow(i * SLOW_USERS_ROWS, NS_PER_S));
        ck_assert(slow_users_note(&users, 0, 1, NS_PER_S));
}

/* Forgiven calls count for nothing. */
TEST(those_that_are_far_apart_do_not)
{
        uint64_t n_ns = SLOW_USER_CALLS * (SLOW_USER_NS + 1);
        uint64_t later_ns = NS_PER_S + n_ns * SLOW_USER_PART;

        for (unsigned i = 1; i < SLOW_USER_CALLS; i++)
                ck_assert(!slow_users_note(&users, ALICE, SLOW_USER_NS + 1, NS_PER_S));
        for (unsigned i = 1; i < SLOW_USER_CALLS; i++)
                ck_assert(!slow_users_note(&users, ALICE, SLOW_USER_NS + 1, later_ns));
        ck_assert(slow_users_note(&users, ALICE, SLOW_USER_NS + 1, later_ns));
}

TEST(it_ends_when_there_was_none_for_long)
{
        become_slow(ALICE, NS_PER_S);
        ck_assert(is_slow(ALICE, NS_PER_S + SLOW_USER_REST_NS - 1));
        ck_assert(!is_slow(ALICE, NS_PER_S + SLOW_USER_REST_NS));
        slow_users_renew(&users, slow_users_find(&users, ALICE), 5 * NS_PER_S);
        ck_assert(is_slow(ALICE, 5 * NS_PER_S + SLOW_USER_REST_NS - 1));
        /* An older time shortens nothing. */
        slow_users_renew(&users, slow_users_find(&users, ALICE), NS_PER_S);
        ck_assert(is_slow(ALICE, 5 * NS_PER_S + SLOW_USER_REST_NS - 1));
}

TEST(the_one_that_was_slow_the_longest_ago_gives_way)
{
        for (uint64_t i = 0; i <= SLOW_USERS_MAX; i++)
                become_slow(i, (1 + i) * NS_PER_S);
        ck_assert_int_eq(slow_users_find(&users, 0), -1);
        for (uint64_t i = 1; i <= SLOW_USERS_MAX; i++)
                ck_assert(is_slow(i, (2 + SLOW_USERS_MAX) * NS_PER_S));
}

TEST(one_that_is_slow_again_keeps_its_place)
{
        become_slow(ALICE, NS_PER_S);
        become_slow(BOB, NS_PER_S);
        become_slow(ALICE, 2 * SLOW_USER_REST_NS);
        ck_assert_int_eq(slow_users_find(&users, ALICE), 0);
        ck_assert_uint_eq(users.n, 2);
        ck_assert(is_slow(ALICE, 2 * SLOW_USER_REST_NS));
}

TESTS_MAIN("slow_users", .start = start)
