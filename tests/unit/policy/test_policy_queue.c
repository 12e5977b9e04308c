/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: order, deadlines, whose turn it is, and which may bypass which; and one that is withdrawn, in
 * each state that it can be in. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/scheduling/backfill.h"
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

/* Many clients declare the same bytes again. */
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

static void ask_several(struct client *client, unsigned n, uint64_t n_bytes)
{
        for (uint32_t serial = 1; serial <= n; serial++)
                ask(client, serial, n_bytes, UINT64_MAX);
}

static void free_up(struct client *client, const struct held *held)
{
        give_back(client, held->lease, RETURN_UNMAPPED);
        expect_release(held->block);
}

POLICY_TEST(tenants_take_turns, 8 * MIB)
{
        struct client *x = join(9), *a = join(1), *b = join(2);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(x, 2 * MIB);
        ask_several(a, 3, 2 * MIB);
        ask_several(b, 2, 2 * MIB);
        free_up(x, &held[0]);
        (void)expect_create(a, 1);
        free_up(x, &held[1]);
        (void)expect_create(b, 1);
        free_up(x, &held[2]);
        (void)expect_create(a, 2);
        free_up(x, &held[3]);
        (void)expect_create(b, 2);
        expect_idle();
}

POLICY_TEST(bytes_make_a_turn_and_not_requests, 16 * MIB)
{
        struct client *x = join(9), *a = join(1), *b = join(2);
        struct held held = hold(x, 16 * MIB);

        ask_several(a, 3, 4 * MIB);
        ask_several(b, 5, 2 * MIB);
        free_up(x, &held);
        (void)expect_create(a, 1);
        (void)expect_create(b, 1);
        (void)expect_create(b, 2);
        (void)expect_create(a, 2);
        (void)expect_create(b, 3);
        (void)expect_create(b, 4);
        expect_idle();
}

/* A request that fits, and whose block is not created in the end. */
static void bypass(struct client *client)
{
        ask(client, 1, 2 * MIB, 0);
        created(take(ACTION_CREATE).block, -EIO);
        expect_refusal(client, 1, -EIO);
}

POLICY_TEST(no_request_is_bypassed_more_often_than_that, 8 * MIB)
{
        struct client *x = join(9), *a = join(1), *b = join(2);
        struct held held = hold(x, 4 * MIB);

        ask(a, 1, 8 * MIB, world.now_ns + 1000);
        for (unsigned i = 0; i < BACKFILL_MAX; i++)
                bypass(b);
        expect_refused(b, 1, 2 * MIB, 0, GPUMEM_E_REFUSED);
        ask(b, 2, 2 * MIB, UINT64_MAX);
        expect_wait(a, 2, 2 * MIB, UINT64_MAX);
        /* Free memory is for the request that was bypassed; the others go on behind it. */
        free_up(x, &held);
        (void)expect_create(a, 1);
        expect_idle();
}

/* Several such requests hold up others no longer than one. */
POLICY_TEST(those_that_ask_in_vain_hold_up_others_at_the_same_time, 16 * MIB)
{
        struct client *x = join(9), *b = join(2), *b2 = join(2);
        struct held idle;

        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 8 * MIB, world.now_ns), 0);
        (void)hold(x, 8 * MIB);
        idle = hold_idle(b, 8 * MIB);
        for (uint32_t uid = 10; uid < 20; uid++)
                ask(join(uid), 1, 2 * MIB, UINT64_MAX);
        later(BACKFILL_ROUND_NS);
        ask(b2, 1, 6 * MIB, UINT64_MAX);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + BACKFILL_HOLD_NS);
        ck_assert(!was_revoked(b, idle.lease));
        later(BACKFILL_HOLD_NS);
        ck_assert(was_revoked(b, idle.lease));
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
        free_up(x, &held);
        (void)expect_create(a, 0);
}

/* The driver has less than it seems: requests of that size or more are not tried again for other tenants. */
POLICY_TEST(only_what_is_smaller_passes, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);

        ask(a, 1, 4 * MIB, UINT64_MAX);
        created(take(ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        ask(b, 1, 6 * MIB, UINT64_MAX);
        expect_wait(b, 2, 4 * MIB, UINT64_MAX);
        expect_new(b, 3, 2 * MIB, UINT64_MAX);
        expect_idle();
}

/* A process of a tenant of its own, from its start to its end. */
static void come_and_go(void)
{
        struct client *client = join(1);
        struct block *block;

        ask(client, 1, 2 * MIB, UINT64_MAX);
        block = take(ACTION_CREATE).block;
        created(block, 0);
        (void)expect_grant(client, 1);
        ck_assert(!policy_client_eof(world.policy, client, world.now_ns));
        ck_assert(policy_client_dead(world.policy, client, world.now_ns));
        expect_release(block);
}

/* Bytes that a tenant was given count after its end, or tenants that come and go would always be first. */
POLICY_TEST(who_comes_and_goes_begins_no_better, 8 * MIB)
{
        struct client *x = join(9), *b = join(2);

        (void)hold(x, 2 * MIB);
        (void)hold(b, 4 * MIB);
        expect_wait(b, 1, 4 * MIB, UINT64_MAX);
        /* Two before it, each given as much; then those that bypass it. */
        for (unsigned i = 0; i < 2 + BACKFILL_MAX; i++)
                come_and_go();
        expect_wait(join(1), 1, 2 * MIB, UINT64_MAX);
}

TESTS_MAIN("policy: queue")
