/* SPDX-License-Identifier: Apache-2.0 */
/* A draining daemon: how long it waits, what it asks clients, and that no token is attached any more. */
#include "daemon/policy/drain.h"

#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

#define SECOND UINT64_C(1000000000)

TEST(the_first_signal_waits_and_the_second_does_not)
{
        struct drain drain = {.state = DRAIN_NONE};

        drain_see(&drain, 1, 5 * SECOND);
        ck_assert_int_eq(drain.state, DRAIN_NONE);
        ck_assert_uint_eq(drain_seconds_left(&drain, 5 * SECOND), 0);
        drain_signal(&drain, 10, 5 * SECOND);
        ck_assert_int_eq(drain.state, DRAIN_WAITS);
        ck_assert_uint_eq(drain_seconds_left(&drain, 5 * SECOND), 10);
        ck_assert_uint_eq(drain_seconds_left(&drain, 5 * SECOND + 1), 10);
        drain_signal(&drain, 10, 6 * SECOND);
        ck_assert_int_eq(drain.state, DRAIN_OVER);
        drain_signal(&drain, 10, 7 * SECOND);
        ck_assert_int_eq(drain.state, DRAIN_OVER);
        ck_assert_uint_eq(drain_seconds_left(&drain, 7 * SECOND), 0);
}

TEST(it_waits_until_nothing_is_held_or_it_is_time)
{
        struct drain drain = {.state = DRAIN_NONE}, other = drain, hasty = drain;

        drain_signal(&drain, 2, SECOND);
        drain_see(&drain, 1, 3 * SECOND - 1);
        ck_assert_int_eq(drain.state, DRAIN_WAITS);
        ck_assert_uint_eq(drain_seconds_left(&drain, 3 * SECOND - 1), 1);
        ck_assert_uint_eq(drain_seconds_left(&drain, 3 * SECOND), 0);
        drain_see(&drain, 1, 3 * SECOND);
        ck_assert_int_eq(drain.state, DRAIN_OVER);
        drain_signal(&other, DRAIN_SECONDS_MAX, SECOND);
        drain_see(&other, 0, SECOND);
        ck_assert_int_eq(other.state, DRAIN_OVER);
        drain_signal(&hasty, 0, SECOND);
        ck_assert_int_eq(hasty.state, DRAIN_OVER);
}

/* Clients that mark idle leases only in their own time would keep them for longer. */
POLICY_TEST(clients_are_asked_what_is_idle, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);
        const struct client *asked[2] = {NULL, NULL};

        (void)hold(a, 4 * MIB);
        expect_idle();
        world.now_ns += SECOND;
        policy_drain(world.policy, world.now_ns);
        for (unsigned i = 0; i < ARRAY_SIZE(asked); i++) {
                struct action action = policy_next_action(world.policy);

                ck_assert_int_eq(action.kind, ACTION_MARK);
                asked[i] = action.client;
        }
        ck_assert((asked[0] == a && asked[1] == b) || (asked[0] == b && asked[1] == a));
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_NONE);
}

POLICY_TEST(nobody_attaches_any_more, 12 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct policy_share share = {.token = {{1}}, .n_bytes = 1, .granted_uid = POLICY_NO_UID};
        struct lease *attached;
        uint64_t n_bytes;

        ck_assert_int_eq(policy_share(world.policy, a, hold_shareable(a, 4 * MIB).id, &share), 0);
        policy_drain(world.policy, 0);
        ck_assert_int_eq(policy_attach(world.policy, b, &share.token, &attached, &n_bytes),
                         GPUMEM_E_SHUTTING_DOWN);
        policy_check(world.policy);
}

TESTS_MAIN("policy: drain")
