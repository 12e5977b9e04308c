/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: order, deadlines; and one that is withdrawn, in each state that it can be in. */
#include "base/err.h"
#include "daemon/policy/state/types.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(room_goes_to_the_one_that_asked_first, 8 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        struct held held[2];

        held[0] = hold(c, 4 * MIB);
        held[1] = hold(c, 4 * MIB);
        ask(a, 1, 8 * MIB, UINT64_MAX);
        ask(b, 1, 6 * MIB, UINT64_MAX);
        give_back(c, held[0].lease, RETURN_UNMAPPED);
        expect_idle();
        give_back(c, held[1].lease, RETURN_UNMAPPED);
        expect_release(held[0].block);
        expect_release(held[1].block);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 8 * MIB);
        expect_idle();
        ck_assert_uint_eq(stats().n_waiting, 2);
}

POLICY_TEST(deadline_is_refused_on_time_and_not_before, 4 * MIB)
{
        struct client *a = join(1), *b = join(2);

        (void)hold(b, 4 * MIB);
        expect_refused(a, 1, 4 * MIB, 1000, GPUMEM_E_REFUSED);
        ask(a, 2, 4 * MIB, 7000);
        ask(a, 3, 4 * MIB, 6000);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 6000);
        policy_expire(world.policy, 5999);
        expect_idle();
        policy_expire(world.policy, 6000);
        expect_refusal(a, 3, GPUMEM_E_TIMED_OUT);
        expect_idle();
        ck_assert_uint_eq(policy_next_deadline(world.policy), 7000);
        policy_expire(world.policy, 9000);
        expect_refusal(a, 2, GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        ck_assert_uint_eq(stats().n_refusals, 3);
        ck_assert_uint_eq(stats().n_waiting, 0);
}

POLICY_TEST(in_turns_a_queue_is_walked_once_for_all, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold(a, 4 * MIB), other = hold(a, 4 * MIB);
        uint64_t n_walks;

        policy_serve_in_turns(world.policy);
        ask(b, 1, 4 * MIB, UINT64_MAX);
        expect_wait(b, 2, 4 * MIB, 0);
        n_walks = world.policy->n_walks;
        give_back(a, held.lease, RETURN_UNMAPPED);
        give_back(a, other.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_declare(world.policy, b, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
        expect_release(held.block);
        expect_release(other.block);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 4 * MIB);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 4 * MIB);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 2);
}

/* Many declare what they declared before. */
POLICY_TEST(nobody_is_looked_at_when_nothing_has_changed, 8 * MIB)
{
        struct client *a = join(1);
        uint64_t n_walks;

        client_set_held(a, 4 * MIB);
        n_walks = world.policy->n_walks;
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(policy_declare(world.policy, a, 0, 4 * MIB, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        ck_assert_int_eq(policy_declare(world.policy, a, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
}

POLICY_TEST(so_many_of_a_tenant_wait_and_no_more, 8 * MIB)
{
        struct client *other = join(2);
        uint32_t n = 0;

        (void)hold(other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (unsigned i = 0; i < 17; i++) {
                struct client *client = join(1);

                for (uint32_t serial = 1; serial <= 64; serial++)
                        policy_lease(world.policy, client,
                                     &(struct policy_ask){.serial = serial,
                                                          .n_bytes = 2 * MIB,
                                                          .deadline_ns = UINT64_MAX},
                                     world.now_ns);
        }
        while (policy_next_action(world.policy).kind == ACTION_REFUSE)
                n++;
        ck_assert_uint_eq(n, 64);
        expect_wait(other, 1, 2 * MIB, UINT64_MAX);
        ck_assert_uint_eq(stats().n_waiting, 1024 + 1);
}

TESTS_MAIN("policy: queue")
