/* SPDX-License-Identifier: Apache-2.0 */
/* rounds: how much a turn looks at, the order of members, and what a look may do to others; when a peer
 * that does not read has stalled, and how often an unchanged number is checked. */
#include "base/err.h"
#include "daemon/fairness/poll_rounds.h"
#include "tests/suite.h"

#define N_MAX  300
#define SECOND UINT64_C(1000000000)
#define START  (1000 * SECOND)

static struct poll_rounds rounds;
static struct thing {
        struct poll_rounds_member member;
        enum poll_rounds_look answer;
        unsigned n_looks;
} things[N_MAX];

static unsigned order[N_MAX * 4]; /* of looks */
static unsigned n_looks;

/* Called by the next look. */
static void (*deed)(unsigned at);

static enum poll_rounds_look look(struct poll_rounds_member *member)
{
        struct thing *thing = CONTAINER_OF(member, struct thing, member);
        unsigned at = (unsigned)(thing - things);

        ck_assert_ptr_nonnull(member->list);
        ck_assert_uint_lt(n_looks, ARRAY_SIZE(order));
        order[n_looks++] = at;
        thing->n_looks++;
        if (deed)
                deed(at);
        return thing->answer;
}

static void check(void)
{
        struct poll_rounds_member *member;
        unsigned n = 0, n_wrong = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(rounds.lists); i++) {
                TAILQ_FOREACH (member, &rounds.lists[i], link) {
                        n_wrong += member->list != &rounds.lists[i];
                        n++;
                }
        }
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_uint_eq(n, rounds.n);
}

static void start(unsigned n, enum poll_rounds_look answer)
{
        poll_rounds_init(&rounds, look);
        deed = NULL;
        n_looks = 0;
        for (unsigned i = 0; i < N_MAX; i++)
                things[i] = (struct thing){.answer = answer};
        for (unsigned i = 0; i < n; i++)
                poll_rounds_put(&rounds, &things[i].member);
        check();
}

static unsigned count_turns(void)
{
        unsigned n = 1;

        poll_rounds_begin(&rounds);
        for (; poll_rounds_turn(&rounds, START); n++)
                check();
        check();
        return n;
}

TEST(a_turn_is_bounded)
{
        start(N_MAX, POLL_GLANCED);
        ck_assert_uint_eq(count_turns(), (N_MAX + 127) / 128);
        start(N_MAX, POLL_ASKED);
        ck_assert_uint_eq(count_turns(), (N_MAX + 7) / 8);
        start(N_MAX, POLL_WORKED);
        ck_assert_uint_eq(count_turns(), N_MAX);
}

TEST(each_is_looked_at_once_in_a_round)
{
        for (enum poll_rounds_look answer = 0; answer < POLL_N_LOOKS; answer++) {
                start(N_MAX, answer);
                for (unsigned round = 1; round <= 3; round++) {
                        (void)count_turns();
                        for (unsigned i = 0; i < N_MAX; i++)
                                ck_assert_uint_eq(things[i].n_looks, round);
                }
        }
}

TEST(without_a_round_nobody_is_looked_at)
{
        start(3, POLL_GLANCED);
        ck_assert(!poll_rounds_turn(&rounds, START));
        ck_assert_uint_eq(n_looks, 0);
        (void)count_turns();
        ck_assert(!poll_rounds_turn(&rounds, START));
        ck_assert_uint_eq(n_looks, 3);
}

static void expect_order(const unsigned *expected, unsigned n)
{
        ck_assert_uint_eq(n_looks, n);
        for (unsigned i = 0; i < n; i++)
                ck_assert_uint_eq(order[i], expected[i]);
        n_looks = 0;
}

/* Otherwise a member that always has work would use up the turn, and those behind it would get nothing. */
TEST(who_had_work_done_comes_last)
{
        start(4, POLL_GLANCED);
        things[0].answer = things[2].answer = POLL_WORKED;
        (void)count_turns();
        expect_order((unsigned[]){0, 1, 2, 3}, 4);
        (void)count_turns();
        expect_order((unsigned[]){1, 3, 0, 2}, 4);
        poll_rounds_put(&rounds, &things[4].member);
        (void)count_turns();
        expect_order((unsigned[]){1, 3, 4, 0, 2}, 5);
}

TEST(a_round_that_is_not_over_goes_on)
{
        start(3, POLL_WORKED);
        poll_rounds_begin(&rounds);
        ck_assert(poll_rounds_turn(&rounds, START));
        poll_rounds_begin(&rounds);
        ck_assert(poll_rounds_turn(&rounds, START));
        ck_assert(!poll_rounds_turn(&rounds, START));
        expect_order((unsigned[]){0, 1, 2}, 3);
        things[0].answer = POLL_GLANCED;
        (void)count_turns();
        poll_rounds_begin(&rounds);
        ck_assert(poll_rounds_turn(&rounds, START));
        poll_rounds_begin(&rounds);
        check();
        ck_assert(!poll_rounds_turn(&rounds, START));
        expect_order((unsigned[]){0, 1, 2, 0, 1, 2}, 6);
}

/* What is told between two rounds is the earliest of the members' times. */
TEST(a_member_is_looked_at_when_its_time_has_come)
{
        start(3, POLL_ASKED);
        things[1].member.backoff.next_ns = START + 1;
        things[2].member.backoff.next_ns = START + 2;
        (void)count_turns();
        expect_order((unsigned[]){0}, 1);
        ck_assert_uint_eq(rounds.soonest_ns, 0);
        poll_rounds_take_out(&rounds, &things[0].member);
        (void)count_turns();
        expect_order(NULL, 0);
        ck_assert_uint_eq(rounds.soonest_ns, START + 1);
        things[3].member.backoff.next_ns = START;
        poll_rounds_put(&rounds, &things[3].member);
        ck_assert_uint_eq(rounds.soonest_ns, START);
        (void)count_turns();
        expect_order((unsigned[]){3}, 1);
}

/* A daemon that stops looks at all. */
TEST(a_round_may_be_ahead_of_all_times)
{
        start(3, POLL_ASKED);
        for (unsigned i = 0; i < 3; i++)
                things[i].member.backoff.next_ns = START + SECOND;
        poll_rounds_begin(&rounds);
        ck_assert(!poll_rounds_turn(&rounds, UINT64_MAX));
        expect_order((unsigned[]){0, 1, 2}, 3);
}

static void take_out_neighbours(unsigned at)
{
        if (at)
                poll_rounds_take_out(&rounds, &things[at - 1].member);
        poll_rounds_take_out(&rounds, &things[at].member);
        poll_rounds_take_out(&rounds, &things[at].member);
        if (at + 1 < N_MAX)
                poll_rounds_take_out(&rounds, &things[at + 1].member);
}

static void put_in_again(unsigned at)
{
        poll_rounds_take_out(&rounds, &things[at].member);
        poll_rounds_put(&rounds, &things[at].member);
        poll_rounds_put(&rounds, &things[at].member);
}

TEST(a_look_may_take_out_any)
{
        for (enum poll_rounds_look answer = 0; answer < POLL_N_LOOKS; answer++) {
                start(N_MAX, answer);
                deed = take_out_neighbours;
                (void)count_turns();
                ck_assert_uint_eq(n_looks, N_MAX / 2);
                ck_assert_uint_eq(rounds.n, 0);
                ck_assert_uint_eq(count_turns(), 1);
                ck_assert_uint_eq(n_looks, N_MAX / 2);
        }
}

TEST(what_is_put_in_meanwhile_is_in_once)
{
        start(N_MAX, POLL_ASKED);
        deed = put_in_again;
        (void)count_turns();
        ck_assert_uint_eq(n_looks, N_MAX);
        ck_assert_uint_eq(rounds.n, N_MAX);
}

TEST(who_reads_is_not_stalled)
{
        struct stall stall;

        stall_begin(&stall, 100, START);
        ck_assert(!stall_is_over(&stall, 100, 5 * SECOND, START + 5 * SECOND - 1));
        ck_assert(stall_is_over(&stall, 100, 5 * SECOND, START + 5 * SECOND));
        ck_assert(!stall_is_over(&stall, 99, 5 * SECOND, START + 6 * SECOND));
        /* More unread bytes are not progress. */
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
        /* A change in either direction makes the checks frequent again. */
        backoff_go_on(&backoff, 6, at_ns);
        ck_assert(backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
        backoff_go_on(&backoff, 6, at_ns);
        ck_assert(!backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
        backoff_go_on(&backoff, 7, at_ns);
        ck_assert(backoff_is_over(&backoff, at_ns + BACKOFF_MIN_NS));
}

TESTS_MAIN("poll_rounds")
