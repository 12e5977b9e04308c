/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: how often the queue is walked, how many may wait, and for how long one holds up others. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/state/types.h"
#include "tests/unit/policy/policy_world.h"

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

/* Many clients declare the same bytes again. */
POLICY_TEST(nobody_is_looked_at_when_nothing_has_changed, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        uint64_t n_walks;

        (void)hold(b, 8 * MIB);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        client_set_held(a, 4 * MIB);
        n_walks = world.policy->n_walks;
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(policy_declare(world.policy, a, 0, 4 * MIB, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        ck_assert_int_eq(policy_declare(world.policy, a, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
}

POLICY_TEST(a_queue_without_requests_is_not_walked, 8 * MIB)
{
        struct client *a = join(1);
        uint64_t n_walks = world.policy->n_walks;
        struct held held = hold(a, 4 * MIB);

        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_le(world.policy->n_walks, n_walks + 1);
}

POLICY_TEST(so_many_of_a_tenant_wait_and_no_more, 8 * MIB)
{
        struct client *other = join(2);
        uint32_t n = 0;

        (void)hold(other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (unsigned i = 0; i < 5; i++) {
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
        ck_assert_uint_eq(stats().n_waiting, 256 + 1);
}

/* A request that fits, and whose block is not created in the end. */
static void bypass(struct client *client)
{
        ask(client, 1, 2 * MIB, 0);
        created(take(ACTION_CREATE).block, -EIO);
        expect_refusal(client, 1, -EIO);
}

/* A request for all memory with an unlimited deadline does not stop the others. */
POLICY_TEST(nobody_is_held_up_for_long, 8 * MIB)
{
        struct client *x = join(9), *a = join(1), *b = join(2);
        struct held held = hold(x, 4 * MIB);

        for (unsigned round = 0; round < 3; round++) {
                uint64_t since_ns = world.now_ns;

                ask(a, round, 8 * MIB, UINT64_MAX);
                for (unsigned i = 0; i < BACKFILL_MAX && !round; i++)
                        bypass(b);
                expect_wait(b, 1, 2 * MIB, UINT64_MAX);
                ck_assert_uint_eq(policy_next_deadline(world.policy), since_ns + BACKFILL_HOLD_NS);
                world.now_ns = since_ns + BACKFILL_HOLD_NS - 1;
                later(0);
                expect_idle();
                later(1);
                created(take(ACTION_CREATE).block, -EIO);
                expect_refusal(b, 1, -EIO);
                ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
                /* In the rest of the round it may be bypassed freely, whatever else its tenant asks for. */
                world.now_ns = since_ns + BACKFILL_ROUND_NS - 1;
                for (unsigned i = 0; i < 2 * BACKFILL_MAX; i++)
                        bypass(b);
                world.now_ns++;
        }
        expect_wait(b, 1, 2 * MIB, UINT64_MAX);
        give_back(x, held.lease, RETURN_UNMAPPED);
        expect_release(held.block);
        (void)expect_create(a, 0);
}

TESTS_MAIN("policy: queue")
