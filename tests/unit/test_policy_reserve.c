/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody uses does not pile up beside new blocks. */
#include "base/err.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/scheduling/eviction.h"
#include "daemon/policy/scheduling/revocation.h"
#include "tests/unit/policy_world.h"

#define LARGE (8 * EVICTION_SPARE_BYTES)

TEST(a_little_stays)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, EVICTION_SPARE_BYTES);

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 2 * EVICTION_SPARE_BYTES, 0);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, held.lease));
        world_free(&world);
}

TEST(as_much_goes_as_is_made_and_the_oldest_of_it)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(&world, a, EVICTION_SPARE_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                mark_idle(&world, a, held[i].lease);
        /* Its properties are others. */
        ask_with(&world, b,
                 &(struct policy_ask){
                         .serial = 1, .n_bytes = 2 * MIB, .properties = POLICY_SHAREABLE});
        expect_release(&world, held[0].block);
        expect_notice(&world, a, held[0].lease);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        /* What is on its way counts no more: two are to stay less than one of these. */
        ask_with(&world, b,
                 &(struct policy_ask){.serial = 2,
                                      .n_bytes = 2 * EVICTION_SPARE_BYTES,
                                      .properties = POLICY_SHAREABLE});
        expect_release(&world, held[1].block);
        expect_notice(&world, a, held[1].lease);
        expect_release(&world, held[2].block);
        expect_notice(&world, a, held[2].lease);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, held[3].lease));
        world_free(&world);
}

TEST(the_askers_own_goes_before_cached_ones_and_those_before_others)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *kin = join(&world, 1), *other = join(&world, 2);
        struct held others = hold(&world, other, EVICTION_SPARE_BYTES);
        struct held kins = hold(&world, kin, EVICTION_SPARE_BYTES), own = hold(&world, a, 2 * MIB);
        struct held cached = cache(&world, kin, 2 * MIB, RETURN_UNMAPPED);
        const struct held *order[] = {&own, &cached, &kins, &others};

        mark_idle(&world, other, others.lease);
        mark_idle(&world, kin, kins.lease);
        mark_idle(&world, a, own.lease);
        ask(&world, a, 1, 3 * EVICTION_SPARE_BYTES, 0);
        for (unsigned i = 0; i + 1 < ARRAY_SIZE(order); i++) {
                expect_release(&world, order[i]->block);
                if (order[i] != &cached)
                        expect_notice(&world, i ? kin : a, order[i]->lease);
        }
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        /* That was a little. */
        ck_assert(!was_revoked(&world, other, others.lease));
        world_free(&world);
}

TEST(it_is_not_revoked_from_another_tenant_twice_at_once)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *other = join(&world, 2);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(&world, other, EVICTION_SPARE_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                mark_idle(&world, other, held[i].lease);
        ask(&world, a, 1, 2 * MIB, 0);
        expect_release(&world, held[0].block);
        expect_notice(&world, other, held[0].lease);
        (void)take(&world, ACTION_CREATE);
        ask(&world, a, 2, 4 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        world.now_ns += REVOCATION_OTHERS_NS;
        ask(&world, a, 3, 6 * MIB, 0);
        expect_release(&world, held[1].block);
        expect_notice(&world, other, held[1].lease);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        world_free(&world);
}

/* Two blocks in the cache that the client maps still, since they were taken from it: nobody is charged. */
static void lose_two(struct world *world, struct client *client, struct held *held)
{
        struct client *kin = join(world, 1);
        struct lease *lease[2];

        for (unsigned i = 0; i < 2; i++)
                held[i] = hold(world, client, EVICTION_SPARE_BYTES);
        for (uint32_t i = 0; i < 2; i++) {
                mark_idle(world, client, held[i].lease);
                ask(world, kin, i, EVICTION_SPARE_BYTES, 0);
                lease[i] = expect_grant(world, kin, i);
        }
        for (unsigned i = 0; i < 2; i++)
                give_back(world, kin, lease[i], RETURN_UNMAPPED);
        ck_assert_uint_eq(client_tenant_usage(client)->n[LIMIT_DEVICE_BYTES], 0);
}

/* A new block of 10 MiB, beside one of EVICTION_SPARE_BYTES that its tenant maps and need not have. */
static void ask_below(uint64_t max_bytes, enum action_kind expected)
{
        const struct policy_ask shareable = {
                .serial = 1, .n_bytes = 10 * MIB, .properties = POLICY_SHAREABLE};
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *kin = join(&world, 1);
        struct held held[2];

        lose_two(&world, kin, held);
        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES,
                                          max_bytes, world.now_ns),
                         0);
        ask_with(&world, a, &shareable);
        if (expected == ACTION_RELEASE) {
                expect_release(&world, held[0].block);
                expect_notice(&world, kin, held[0].lease);
        }
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        ck_assert_uint_le(client_tenant_usage(a)->n[LIMIT_DEVICE_BYTES], max_bytes);
        world_free(&world);
}

/* What lingers is charged to those who map it still. */
TEST(no_limit_is_passed_for_it)
{
        ask_below(EVICTION_SPARE_BYTES + 10 * MIB, ACTION_RELEASE);
        ask_below(EVICTION_SPARE_BYTES + 8 * MIB, ACTION_CREATE);
}

TEST(pinned_memory_stays)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1);

        ck_assert_int_eq(policy_set_pool_max(world.policy, 1, LARGE, 0), 0);
        for (uint32_t i = 1; i <= 3; i++) {
                struct policy_ask pinned = {.pool = 1, .serial = i, .n_bytes = i * 80 * MIB};

                ask_with(&world, a, &pinned);
                created(&world, take(&world, ACTION_CREATE).block, 0);
                give_back(&world, a, expect_grant(&world, a, i), RETURN_UNMAPPED);
                expect_idle(&world);
        }
        world_free(&world);
}

static void expect_mark(struct world *world, const struct client *client)
{
        ck_assert_ptr_eq(take(world, ACTION_MARK).client, client);
}

TEST(others_are_asked_what_is_idle_before_the_peak_rises)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *kin = join(&world, 1), *other = join(&world, 2);
        struct held first = hold(&world, kin, 2 * MIB);

        (void)hold(&world, other, 4 * MIB);
        (void)join(&world, 1); /* holds nothing */
        world.now_ns += CLIENT_MARK_NS;
        ask(&world, a, 1, 8 * MIB, 0);
        expect_mark(&world, other);
        expect_mark(&world, kin);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        /* Not twice within a moment; those who were not asked may be. */
        ask(&world, kin, 1, 16 * MIB, 0);
        expect_mark(&world, a);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        give_back(&world, kin, expect_grant(&world, kin, 1), RETURN_UNMAPPED);
        policy_release_all(world.policy, kin, 2, SCOPE_TENANT, 0);
        released(&world, take(&world, ACTION_RELEASE).block);
        (void)take(&world, ACTION_FREED);
        /* Below the peak nobody is asked. */
        world.now_ns += CLIENT_MARK_NS;
        ask(&world, a, 2, 16 * MIB, 0);
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_CREATE);
        ck_assert_int_eq(policy_next_action(world.policy).kind, ACTION_NONE);
        ck_assert(!was_revoked(&world, kin, first.lease));
        world_free(&world);
}

TEST(the_gone_are_not_asked)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);

        (void)hold(&world, b, 2 * MIB);
        (void)hold(&world, c, 2 * MIB);
        world.now_ns += CLIENT_MARK_NS;
        ask(&world, a, 1, 8 * MIB, 0);
        policy_client_eof(world.policy, b, world.now_ns);
        policy_check(world.policy);
        expect_mark(&world, c);
        world_free(&world);
}

TEST(release_all_takes_what_is_idle)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *kin = join(&world, 1), *other = join(&world, 2);
        struct held busy = hold(&world, a, 2 * MIB), idle = hold(&world, a, 4 * MIB);
        struct held others = hold(&world, other, 8 * MIB);
        struct action action;

        mark_idle(&world, a, idle.lease);
        mark_idle(&world, other, others.lease);
        (void)policy_see_idle(world.policy);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 12 * MIB);
        ck_assert_int_eq(policy_release_all(world.policy, kin, 1, SCOPE_TENANT, POLICY_ALL_POOLS),
                         0);
        expect_release(&world, idle.block);
        expect_notice(&world, a, idle.lease);
        unmap(&world, a, idle.id);
        action = take(&world, ACTION_FREED);
        ck_assert_uint_eq(action.n_bytes, 4 * MIB);
        ck_assert_uint_eq(action.n_blocks, 1);
        ck_assert_int_eq(policy_release_all(world.policy, kin, 2, SCOPE_NODE, 0), 0);
        expect_release(&world, others.block);
        expect_notice(&world, other, others.lease);
        unmap(&world, other, others.id);
        ck_assert_uint_eq(take(&world, ACTION_FREED).n_bytes, 8 * MIB);
        ck_assert(!was_revoked(&world, a, busy.lease));
        expect_totals(&world, 2 * MIB, 0, 0);
        (void)policy_see_idle(world.policy);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 0);
        ck_assert_uint_eq(stats(&world).n_revocations, 2);
        ck_assert_uint_eq(stats(&world).n_notices, 2);
        world_free(&world);
}

/* Who is refused is told, without a look at every lease each time. */
TEST(what_is_idle_is_looked_at_now_and_then)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1);
        struct held first = hold(&world, a, 8 * MIB), second = hold(&world, a, 4 * MIB);

        mark_idle(&world, a, first.lease);
        policy_see_idle_of(world.policy, 0, world.now_ns);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 8 * MIB);
        mark_idle(&world, a, second.lease);
        policy_see_idle_of(world.policy, 0, world.now_ns + POLICY_SEEN_NS - 1);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 8 * MIB);
        give_back(&world, a, first.lease, RETURN_MAPPED);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 0);
        policy_see_idle_of(world.policy, 0, world.now_ns + POLICY_SEEN_NS);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 4 * MIB);
        world_free(&world);
}

TEST(lowered_limit_takes_what_is_idle)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1);
        struct held old = hold(&world, a, 4 * MIB), busy = hold(&world, a, 4 * MIB);
        struct held young = hold(&world, a, 4 * MIB);

        mark_idle(&world, a, young.lease);
        mark_idle(&world, a, old.lease);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 10 * MIB, 0), 0);
        expect_release(&world, old.block);
        expect_notice(&world, a, old.lease);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, busy.lease) && !was_revoked(&world, a, young.lease));
        world_free(&world);
}

TEST(full_driver_takes_what_is_idle_for_one_that_waits)
{
        struct world world = world_new(LARGE);
        struct client *a = join(&world, 1), *other = join(&world, 2);
        struct held idle = hold(&world, other, 4 * MIB);

        mark_idle(&world, other, idle.lease);
        ask(&world, a, 1, 8 * MIB, 0);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        ck_assert(!was_revoked(&world, other, idle.lease));
        /* It is less than is asked for, but perhaps all that is missing. */
        ask(&world, a, 2, 8 * MIB, UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_release(&world, idle.block);
        expect_notice(&world, other, idle.lease);
        expect_idle(&world);
        unmap(&world, other, idle.id);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 2);
        world_free(&world);
}

TESTS_MAIN("policy: reserve")
