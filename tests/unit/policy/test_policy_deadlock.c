/* SPDX-License-Identifier: Apache-2.0 */
/* All clients that hold a pool's memory wait for more of it: the last request is refused. */
#include <limits.h>

#include "daemon/policy/scheduling/deadlock.h"
#include "tests/unit/policy/policy_world.h"

static void pass(uint64_t n_ns)
{
        world.now_ns += n_ns;
        policy_expire(world.policy, world.now_ns);
        policy_check(world.policy);
}

/* Nothing has moved in the pool for DEADLOCK_NS. */
static void expect_deadlock(const struct client *client, uint32_t serial)
{
        struct action action;

        expect_idle();
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + DEADLOCK_NS);
        pass(DEADLOCK_NS - 1);
        expect_idle();
        pass(1);
        action = take(ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, GPUMEM_E_REFUSED);
        ck_assert(action.of_deadlock);
}

POLICY_TEST(the_one_that_came_last_is_refused, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);

        (void)hold(a, 4 * MIB);
        (void)hold(b, 4 * MIB);
        ask(a, 1, 4 * MIB, UINT64_MAX);
        expect_idle();
        ask(b, 2, 4 * MIB, UINT64_MAX);
        expect_deadlock(b, 2);
        expect_idle();
        ck_assert_uint_eq(stats().n_waiting, 1);
}

/* Requests that no longer wait set no time at which the pool is looked at. */
POLICY_TEST(a_deadlock_that_ended_wakes_no_one, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);

        (void)hold(a, 4 * MIB);
        (void)hold(b, 4 * MIB);
        policy_serve_in_turns(world.policy);
        ask(a, 1, 4 * MIB, UINT64_MAX);
        ask(b, 2, 4 * MIB, UINT64_MAX);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        ck_assert_uint_le(policy_next_deadline(world.policy), world.now_ns + DEADLOCK_NS);
        ck_assert(policy_cancel(world.policy, b, 2, world.now_ns));
        expect_refusal(b, 2, GPUMEM_E_CANCELLED);
        ck_assert(policy_cancel(world.policy, a, 1, world.now_ns));
        expect_refusal(a, 1, GPUMEM_E_CANCELLED);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
}

/* Another thread of a waiting client has returned memory. */
POLICY_TEST(what_moves_is_no_deadlock, 12 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held;

        (void)hold(a, 4 * MIB);
        (void)hold(b, 4 * MIB);
        held = hold(b, 4 * MIB);
        ask(a, 1, 8 * MIB, UINT64_MAX);
        ask(b, 2, 8 * MIB, UINT64_MAX);
        pass(DEADLOCK_NS - 1);
        expect_idle();
        give_back(b, held.lease, RETURN_UNMAPPED);
        pass(DEADLOCK_NS - 1);
        expect_idle();
        pass(1);
        expect_refusal(b, 2, GPUMEM_E_REFUSED);
        /* It has as much time to return its memory, and the other request still waits. */
        expect_idle();
}

/* A client that holds nothing has nothing to give back: refusing it would help no other client. */
POLICY_TEST(who_holds_nothing_goes_on_waiting, 8 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);

        (void)hold(a, 4 * MIB);
        (void)hold(b, 4 * MIB);
        ask(a, 1, 4 * MIB, UINT64_MAX);
        ask(c, 3, 4 * MIB, UINT64_MAX);
        expect_idle();
        ask(b, 2, 4 * MIB, UINT64_MAX);
        expect_deadlock(b, 2);
        expect_idle();
        ck_assert_uint_eq(stats().n_waiting, 2);
}

POLICY_TEST(what_is_on_its_way_back_may_be_enough, 12 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct block *released_block;
        struct held held;

        (void)hold(a, 4 * MIB);
        (void)hold(b, 4 * MIB);
        held = cache(b, 4 * MIB, RETURN_UNMAPPED);
        ask(a, 1, 4 * MIB, UINT64_MAX);
        ask(b, 2, 8 * MIB, UINT64_MAX);
        released_block = take(ACTION_RELEASE).block;
        ck_assert_ptr_eq(released_block, held.block);
        expect_idle();
        released(released_block);
        /* One request is served; after that, the client may return memory. */
        ck_assert_uint_eq(take(ACTION_CREATE).serial, 1);
        expect_idle();
}

POLICY_TEST(a_group_is_one_that_waits, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct policy_ask first = {.serial = 2, .n_bytes = 6 * MIB, .more = true};

        (void)hold(a, 6 * MIB);
        (void)hold(b, 6 * MIB);
        ask(a, 1, 6 * MIB, UINT64_MAX);
        ask_with(b, &first);
        expect_idle();
        ask(b, 3, 6 * MIB, UINT64_MAX);
        expect_idle();
        pass(DEADLOCK_NS);
        expect_refusal(b, 2, GPUMEM_E_REFUSED);
        expect_refusal(b, 3, GPUMEM_E_REFUSED);
        expect_idle();
}

TESTS_MAIN("policy: deadlock")
