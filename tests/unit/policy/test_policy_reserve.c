/* SPDX-License-Identifier: Apache-2.0 */
/* Unused memory does not pile up beside new blocks. */
#include "base/err.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "tests/unit/policy/policy_world.h"

#define LARGE (8 * EVICT_SPARE_BYTES)

POLICY_TEST(the_askers_own_goes_before_cached_ones_and_those_before_others, LARGE)
{
        struct client *a = join(1), *kin = join(1), *other = join(2);
        struct held others = hold(other, EVICT_SPARE_BYTES);
        struct held kins = hold(kin, EVICT_SPARE_BYTES), own = hold(a, 2 * MIB);
        struct held cached = cache(kin, 2 * MIB, RETURN_UNMAPPED);
        const struct held *order[] = {&own, &cached, &kins, &others};

        mark_idle(other, others.lease);
        mark_idle(kin, kins.lease);
        mark_idle(a, own.lease);
        ask(a, 1, 3 * EVICT_SPARE_BYTES, 0);
        for (unsigned i = 0; i + 1 < ARRAY_SIZE(order); i++) {
                expect_release(order[i]->block);
                if (order[i] != &cached)
                        expect_notice(i ? kin : a, order[i]->lease);
        }
        (void)take(ACTION_CREATE);
        expect_idle();
        /* That was within the spare part. */
        ck_assert(!was_revoked(other, others.lease));
}

POLICY_TEST(it_is_not_revoked_from_another_tenant_twice_at_once, LARGE)
{
        struct client *a = join(1), *other = join(2);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(other, EVICT_SPARE_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                mark_idle(other, held[i].lease);
        ask(a, 1, 2 * MIB, 0);
        expect_taken(other, &held[0]);
        (void)take(ACTION_CREATE);
        expect_new(a, 2, 4 * MIB, 0);
        expect_idle();
        world.now_ns += REVOKE_IDLE_OTHERS_NS;
        ask(a, 3, 6 * MIB, 0);
        expect_taken(other, &held[1]);
        (void)take(ACTION_CREATE);
        expect_idle();
}

/* Two cached blocks that were revoked from the client and that it still maps: no client is charged. */
static void lose_two(struct client *client, struct held *held)
{
        struct client *kin = join(1);
        struct lease *lease[2];

        for (unsigned i = 0; i < 2; i++)
                held[i] = hold(client, EVICT_SPARE_BYTES);
        for (uint32_t i = 0; i < 2; i++) {
                mark_idle(client, held[i].lease);
                ask(kin, i, EVICT_SPARE_BYTES, 0);
                lease[i] = expect_grant(kin, i);
        }
        for (unsigned i = 0; i < 2; i++)
                give_back(kin, lease[i], RETURN_UNMAPPED);
        ck_assert_uint_eq(client_tenant_usage(client)->n[LIMIT_DEVICE_BYTES], 0);
}

/* A new block of 10 MiB, beside one of EVICT_SPARE_BYTES that its tenant maps and need not have. Lingering
 * blocks are charged to the clients that still map them. */
POLICY_TEST(no_limit_is_passed_for_it, LARGE, .to = 2)
{
        const uint64_t max_bytes = EVICT_SPARE_BYTES + (_i ? 10 : 8) * MIB;
        const struct policy_ask shareable = {
                .serial = 1, .n_bytes = 10 * MIB, .properties = POLICY_SHAREABLE};
        struct client *a = join(1), *kin = join(1);
        struct held held[2];

        lose_two(kin, held);
        set_limit(LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, max_bytes);
        ask_with(a, &shareable);
        if (_i)
                expect_taken(kin, &held[0]);
        (void)take(ACTION_CREATE);
        expect_idle();
        ck_assert_uint_le(client_tenant_usage(a)->n[LIMIT_DEVICE_BYTES], max_bytes);
}

static void expect_mark(const struct client *client)
{
        ck_assert_ptr_eq(take(ACTION_MARK).client, client);
}

POLICY_TEST(others_are_asked_what_is_idle_before_the_peak_rises, LARGE)
{
        struct client *a = join(1), *kin = join(1), *other = join(2);
        struct held first = hold(kin, 2 * MIB);

        (void)hold(other, 4 * MIB);
        (void)join(1); /* holds nothing */
        world.now_ns += CLIENT_MARK_NS;
        ask(a, 1, 8 * MIB, 0);
        expect_mark(other);
        expect_mark(kin);
        (void)expect_made(a, 1);
        /* Not twice within a moment; other clients may be asked. */
        ask(kin, 1, 16 * MIB, 0);
        expect_mark(a);
        give_back(kin, expect_made(kin, 1), RETURN_UNMAPPED);
        policy_release_all(world.policy, kin, 2, SCOPE_TENANT, 0);
        released(take(ACTION_RELEASE).block);
        (void)take(ACTION_FREED);
        /* Below the peak no client is asked. */
        world.now_ns += CLIENT_MARK_NS;
        ask(a, 2, 16 * MIB, 0);
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_CREATE);
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_NONE);
        ck_assert(!was_revoked(kin, first.lease));
}

POLICY_TEST(release_all_takes_what_is_idle, LARGE)
{
        struct client *a = join(1), *kin = join(1), *other = join(2);
        struct held busy = hold(a, 2 * MIB), idle = hold(a, 4 * MIB);
        struct held others = hold(other, 8 * MIB);
        struct action action;

        mark_idle(a, idle.lease);
        mark_idle(other, others.lease);
        see_idle();
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 12 * MIB);
        ck_assert_int_eq(policy_release_all(world.policy, kin, 1, SCOPE_TENANT, POLICY_ALL_POOLS),
                         0);
        expect_taken(a, &idle);
        unmap(a, idle.id);
        action = take(ACTION_FREED);
        ck_assert_uint_eq(action.n_bytes, 4 * MIB);
        ck_assert_uint_eq(action.n_blocks, 1);
        ck_assert_int_eq(policy_release_all(world.policy, kin, 2, SCOPE_NODE, 0), 0);
        expect_taken(other, &others);
        unmap(other, others.id);
        ck_assert_uint_eq(take(ACTION_FREED).n_bytes, 8 * MIB);
        ck_assert(!was_revoked(a, busy.lease));
        expect_totals(2 * MIB, 0, 0);
        see_idle();
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 0);
        ck_assert_uint_eq(stats().n_revocations, 2);
        ck_assert_uint_eq(stats().n_notices, 2);
}

/* A refusal looks at a bounded number of leases, whatever there are. */
POLICY_TEST(some_idle_leases_are_seen, LARGE)
{
        struct client *a = join(1);
        struct held first = hold_idle(a, 8 * MIB), second = hold(a, 4 * MIB);

        mark_idle(a, second.lease);
        policy_see_some_idle(world.policy, 0, 1);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 8 * MIB);
        policy_see_some_idle(world.policy, 0, 1);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 8 * MIB);
        give_back(a, first.lease, RETURN_MAPPED);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 0);
        policy_see_some_idle(world.policy, 0, 1);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 4 * MIB);
}

/* As many bytes as the new block has, of however small blocks they are. */
POLICY_TEST(many_small_ones_go_for_a_large_one, 8192 * MIB)
{
        const unsigned n_clients = 8, n_each = 90;
        struct client *a = join(1), *kin[8];
        struct held held[8][90];

        for (unsigned i = 0; i < n_clients * n_each; i++) {
                if (i % n_each == 0)
                        kin[i / n_each] = join(1);
                held[i / n_each][i % n_each] = hold(kin[i / n_each], 4 * MIB);
        }
        for (unsigned i = 0; i < n_clients * n_each; i++)
                mark_idle(kin[i / n_each], held[i / n_each][i % n_each].lease);
        ask(a, 1, 2560 * MIB, 0);
        ck_assert_uint_ge(stats().n_revocations, 2560 / 4);
        ck_assert_uint_lt(stats().n_revocations, n_clients * n_each);
}

/* Not all, where there are many: those that hold most. */
POLICY_TEST(so_many_are_asked_and_no_more, LARGE)
{
        struct client *a, *other;
        struct action action;
        unsigned n = 0;

        for (unsigned i = 0; i < 2 * EVICT_MARKS_A_BLOCK; i++) {
                other = join(2 + i);
                (void)hold(other, i == EVICT_MARKS_A_BLOCK ? 16 * MIB : 2 * MIB);
        }
        a = join(1);
        world.now_ns += CLIENT_MARK_NS;
        ask(a, 1, 8 * MIB, 0);
        while ((action = policy_next_action(world.policy)).kind == ACTION_MARK) {
                ck_assert(n || client_charged(action.client, 0) == 16 * MIB);
                n++;
        }
        ck_assert_int_eq(action.kind, ACTION_CREATE);
        ck_assert_uint_eq(n, EVICT_MARKS_A_BLOCK);
}

TESTS_MAIN("policy: reserve")
