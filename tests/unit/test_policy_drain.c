/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is to end: what is refused, what goes back, and how long is waited. */
#include "daemon/policy/drain.h"

#include "base/err.h"
#include "tests/unit/policy_world.h"

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

TEST(nothing_is_leased_any_more)
{
        struct world world = world_new(12 * MIB);
        struct client *a = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        ck_assert(!policy_is_draining(world.policy));
        policy_drain(world.policy, 0);
        policy_check(world.policy);
        ck_assert(policy_is_draining(world.policy));
        ask(&world, a, 1, 2 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_SHUTTING_DOWN);
        ask(&world, a, 2, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, a, 2, GPUMEM_E_SHUTTING_DOWN);
        /* What is wrong is told as ever. */
        ask(&world, a, 3, 1, 0);
        expect_refusal(&world, a, 3, GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(policy_held_bytes(world.policy), 4 * MIB);
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        ck_assert_uint_eq(policy_held_bytes(world.policy), 0);
        policy_drain(world.policy, 0);
        expect_idle(&world);
        world_free(&world);
}

TEST(who_waits_is_refused_and_what_is_made_goes_back)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 4 * MIB);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, 0);
        block = take(&world, ACTION_CREATE).block;
        ask(&world, b, 2, 8 * MIB, UINT64_MAX);
        policy_drain(world.policy, 0);
        policy_check(world.policy);
        expect_refusal(&world, b, 2, GPUMEM_E_SHUTTING_DOWN);
        expect_refusal(&world, a, 1, GPUMEM_E_SHUTTING_DOWN);
        expect_idle(&world);
        created(&world, block, 0);
        expect_release(&world, block);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        expect_idle(&world);
        world_free(&world);
}

TEST(what_is_cached_goes_back)
{
        struct world world = world_new(12 * MIB);
        struct client *a = join(&world, 1);
        struct held cached = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);

        policy_drain(world.policy, 0);
        policy_check(world.policy);
        expect_release(&world, cached.block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TEST(what_is_idle_goes_back_though_it_becomes_so_later)
{
        struct world world = world_new(64 * MIB);
        struct client *a = join(&world, 1);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(&world, a, 4 * MIB);
        policy_drain(world.policy, 0);
        policy_drain_idle(world.policy, 100);
        policy_check(world.policy);
        expect_idle(&world);
        mark_idle(&world, a, held[2].lease);
        /* So many scans at a time: what is in use is passed, and not looked at first again. */
        policy_drain_idle(world.policy, 2);
        expect_idle(&world);
        policy_drain_idle(world.policy, 2);
        policy_check(world.policy);
        ck_assert(was_revoked(&world, a, held[2].lease));
        expect_release(&world, held[2].block);
        expect_notice(&world, a, held[2].lease);
        ck_assert_uint_eq(policy_held_bytes(world.policy), 16 * MIB);
        unmap(&world, a, held[2].id);
        ck_assert_uint_eq(policy_held_bytes(world.policy), 12 * MIB);
        world_free(&world);
}

/* Whoever marks idle leases in its own time only would keep them for longer. */
TEST(clients_are_asked_what_is_idle)
{
        struct world world = world_new(64 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        const struct client *asked[2] = {NULL, NULL};

        (void)hold(&world, a, 4 * MIB);
        expect_idle(&world);
        world.now_ns += SECOND;
        policy_drain(world.policy, world.now_ns);
        for (unsigned i = 0; i < ARRAY_SIZE(asked); i++) {
                struct action action = policy_next_action(world.policy);

                ck_assert_int_eq(action.kind, ACTION_MARK);
                asked[i] = action.client;
        }
        ck_assert((asked[0] == a && asked[1] == b) || (asked[0] == b && asked[1] == a));
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_NONE);
        world_free(&world);
}

TEST(nobody_attaches_any_more)
{
        struct world world = world_new(12 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .properties = POLICY_SHAREABLE};
        struct policy_share share = {.token = {{1}}, .n_bytes = 1, .granted_uid = POLICY_NO_UID};
        struct lease *lease, *attached;
        uint64_t n_bytes;

        ask_with(&world, a, &request);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        lease = expect_grant(&world, a, 1);
        ck_assert_int_eq(policy_share(world.policy, a, lease_id(lease), &share), 0);
        policy_drain(world.policy, 0);
        ck_assert_int_eq(policy_attach(world.policy, b, &share.token, &attached, &n_bytes),
                         GPUMEM_E_SHUTTING_DOWN);
        policy_check(world.policy);
        world_free(&world);
}

TESTS_MAIN("policy: drain")
