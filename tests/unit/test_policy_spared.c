/* Idle leases of other tenants: what is not taken of them. */
#include "base/err.h"
#include "daemon/policy/scheduling/revocation.h"
#include "tests/unit/policy_world.h"

START_TEST(it_is_not_revoked_from_a_tenant_twice_at_once)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held first = hold(&world, a, 8 * MIB), second = hold(&world, a, 8 * MIB);
        struct held third = hold(&world, c, 8 * MIB);

        mark_idle(&world, a, first.lease);
        mark_idle(&world, a, second.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_release(&world, first.block);
        expect_notice(&world, a, first.lease);
        unmap(&world, a, first.id);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, b, 1);
        ask(&world, b, 2, 8 * MIB, UINT64_MAX);
        world.now_ns += REVOCATION_OTHERS_NS - 1;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        /* Another one may be meanwhile. */
        mark_idle(&world, c, third.lease);
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, third.block);
        expect_notice(&world, c, third.lease);
        ask(&world, b, 3, 8 * MIB, UINT64_MAX);
        expect_idle(&world);
        unmap(&world, c, third.id);
        (void)take(&world, ACTION_CREATE);
        world.now_ns += 1;
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, second.block);
        expect_notice(&world, a, second.lease);
        world_free(&world);
}
END_TEST

static void set_min(struct world *world, uint64_t min_bytes)
{
        ck_assert_int_eq(policy_set_pool_min(world->policy, 0, min_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

/* What it uses counts, too. */
START_TEST(a_tenant_keeps_its_minimum)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held busy = hold(&world, a, 8 * MIB), first = hold(&world, a, 8 * MIB);
        struct held second = hold(&world, a, 8 * MIB);

        set_min(&world, 18 * MIB);
        mark_idle(&world, a, first.lease);
        mark_idle(&world, a, second.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_idle(&world);
        set_min(&world, 16 * MIB);
        expect_release(&world, first.block);
        expect_notice(&world, a, first.lease);
        unmap(&world, a, first.id);
        (void)take(&world, ACTION_CREATE);
        ask(&world, b, 2, 8 * MIB, UINT64_MAX);
        world.now_ns += REVOCATION_OTHERS_NS;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, second.lease));
        ck_assert(!was_revoked(&world, a, busy.lease));
        world_free(&world);
}
END_TEST

/* Several are taken at a time, none too many. */
START_TEST(the_minimum_is_kept_in_one_go_too)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *kin = join(&world, 1);
        struct held held[3];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                held[i] = hold(&world, a, 8 * MIB);
                mark_idle(&world, a, held[i].lease);
        }
        set_min(&world, 10 * MIB);
        ask(&world, b, 1, 12 * MIB, UINT64_MAX);
        expect_idle(&world);
        policy_cancel(world.policy, b, 1, world.now_ns);
        expect_refusal(&world, b, 1, GPUMEM_E_CANCELLED);
        /* Its own processes take what they need. */
        ask(&world, kin, 1, 24 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                expect_release(&world, held[i].block);
                expect_notice(&world, a, held[i].lease);
        }
        world_free(&world);
}
END_TEST

START_TEST(what_is_cached_is_in_no_minimum)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, a, 16 * MIB, RETURN_UNMAPPED);

        set_min(&world, 16 * MIB);
        ask(&world, b, 1, 8 * MIB, 0);
        expect_release(&world, held.block);
        (void)take(&world, ACTION_CREATE);
        ck_assert_int_eq(policy_set_pool_min(world.policy, 9, 0, 0), GPUMEM_E_NO_POOL);
        world_free(&world);
}
END_TEST

START_TEST(ones_own_tenant_is_not_spared)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *kin = join(&world, 1);
        struct held first = hold(&world, kin, 8 * MIB), second = hold(&world, kin, 8 * MIB);

        mark_idle(&world, kin, first.lease);
        mark_idle(&world, kin, second.lease);
        ask(&world, a, 1, 2 * MIB, UINT64_MAX);
        expect_release(&world, first.block);
        expect_notice(&world, kin, first.lease);
        unmap(&world, kin, first.id);
        (void)take(&world, ACTION_CREATE);
        ask(&world, a, 2, 12 * MIB, UINT64_MAX);
        expect_release(&world, second.block);
        expect_notice(&world, kin, second.lease);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                it_is_not_revoked_from_a_tenant_twice_at_once,
                a_tenant_keeps_its_minimum,
                the_minimum_is_kept_in_one_go_too,
                what_is_cached_is_in_no_minimum,
                ones_own_tenant_is_not_spared,
        };

        return run_tests("policy: what others keep", tests, ARRAY_SIZE(tests));
}
