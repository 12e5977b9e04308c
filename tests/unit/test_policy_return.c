/* Leases that are given back, and mappings that stay. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

START_TEST(only_ones_own_lease_is_returned_and_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        ck_assert_int_eq(policy_return(world.policy, sibling, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_return(world.policy, client, 0, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        give_back(&world, client, held.lease, RETURN_MAPPED);
        ck_assert_int_eq(policy_return(world.policy, client, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, sibling, held.id, 0), GPUMEM_E_NO_LEASE);
        unmap(&world, client, held.id);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        expect_totals(&world, 0, 4 * MIB, 0);
        world_free(&world);
}
END_TEST

START_TEST(grant_that_is_not_told_yet_cannot_be_returned)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        struct lease *lease;

        /* Ids are easily guessed. */
        ask(&world, client, 1, 4 * MIB, 0);
        ck_assert_int_eq(policy_return(world.policy, client, held.id + 1, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        lease = expect_grant(&world, client, 1);
        ck_assert_uint_eq(lease_id(lease), held.id + 1);
        give_back(&world, client, lease, RETURN_UNMAPPED);
        world_free(&world);
}
END_TEST

START_TEST(block_may_be_mapped_by_several_while_one_leases_it)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);
        struct lease *of_b;

        ask(&world, b, 1, 4 * MIB, 0);
        of_b = expect_grant(&world, b, 1);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        unmap(&world, a, held.id);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, b, of_b, RETURN_UNMAPPED);
        expect_totals(&world, 0, 4 * MIB, 0);
        world_free(&world);
}
END_TEST

START_TEST(granting_what_is_still_mapped_keeps_both_slots)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_MAPPED);
        struct lease *again;

        ask(&world, client, 1, 4 * MIB, 0);
        again = expect_grant(&world, client, 1);
        ck_assert_uint_eq(lease_slot(again), 1);
        unmap(&world, client, held.id);
        give_back(&world, client, again, RETURN_UNMAPPED);
        ask(&world, client, 2, 4 * MIB, 0);
        ck_assert_uint_eq(lease_slot(expect_grant(&world, client, 2)), 0);
        world_free(&world);
}
END_TEST

static struct lease *lease_shareable(struct world *world, struct client *client)
{
        struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .properties = POLICY_SHAREABLE};

        ask_with(world, client, &request);
        created(world, take(world, ACTION_CREATE).block, 0);
        return expect_grant(world, client, 1);
}

START_TEST(shareable_block_is_never_cached)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease = lease_shareable(&world, client);

        give_back(&world, client, lease, RETURN_UNMAPPED);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        released(&world, take(&world, ACTION_RELEASE).block);
        expect_totals(&world, 0, 0, 0);
        ck_assert_uint_eq(stats(&world).n_blocks, 0);
        world_free(&world);
}
END_TEST

START_TEST(shareable_block_lingers_while_mapped)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease = lease_shareable(&world, client);
        uint64_t id = lease_id(lease);

        give_back(&world, client, lease, RETURN_MAPPED);
        ck_assert_uint_eq(client_charged(client, 0), 4 * MIB);
        released(&world, take(&world, ACTION_RELEASE).block);
        expect_totals(&world, 0, 0, 4 * MIB);
        unmap(&world, client, id);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                only_ones_own_lease_is_returned_and_once,
                grant_that_is_not_told_yet_cannot_be_returned,
                block_may_be_mapped_by_several_while_one_leases_it,
                granting_what_is_still_mapped_keeps_both_slots,
                shareable_block_is_never_cached,
                shareable_block_lingers_while_mapped,
        };

        return run_tests("policy: return", tests, ARRAY_SIZE(tests));
}
