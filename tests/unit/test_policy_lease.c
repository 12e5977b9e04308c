/* Which requests are accepted, and which block serves them. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

START_TEST(new_block_is_charged_from_the_action_on)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct action action;
        struct lease *lease;

        ask(&world, client, 7, 10 * MIB, 0);
        expect_totals(&world, 10 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(action.pool, 0);
        ck_assert_uint_eq(block_bytes(action.block), 10 * MIB);
        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, 7);
        expect_idle(&world);
        created(&world, action.block, 0);
        ck_assert_ptr_eq(block_backing(action.block), &world);
        lease = expect_grant(&world, client, 7);
        ck_assert_uint_ne(lease_id(lease), 0);
        ck_assert_uint_eq(lease_slot(lease), 0);
        ck_assert_ptr_eq(client_owner(client), &world);
        ck_assert_uint_eq(stats(&world).n_creates, 1);
        ck_assert_uint_eq(stats(&world).n_leases, 1);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
        world_free(&world);
}
END_TEST

START_TEST(cached_block_is_granted_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        expect_totals(&world, 0, 16 * MIB, 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ask(&world, sibling, 5, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_uint_ne(lease_id(action.lease), held.id);
        ck_assert_uint_eq(client_charged(sibling, 0), 16 * MIB);
        ck_assert_uint_eq(stats(&world).n_grants_from_cache, 1);
        world_free(&world);
}
END_TEST

START_TEST(an_eighth_more_serves_and_a_unit_beyond_does_not)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 36 * MIB, RETURN_UNMAPPED);

        /* 32 MiB and an eighth are 36 MiB exactly. */
        ask(&world, client, 1, 32 * MIB, 0);
        give_back(&world, client, expect_grant(&world, client, 1), RETURN_UNMAPPED);
        ask(&world, client, 2, 30 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, client, 3, 38 * MIB, 0);
        ck_assert_ptr_ne(take(&world, ACTION_CREATE).block, held.block);
        ask(&world, client, 4, 36 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held.block);
        world_free(&world);
}
END_TEST

START_TEST(smallest_block_that_serves_is_granted)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held small = cache(&world, client, 34 * MIB, RETURN_UNMAPPED);
        struct held large = cache(&world, client, 36 * MIB, RETURN_UNMAPPED);

        ask(&world, client, 1, 32 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, small.block);
        ask(&world, client, 2, 32 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, large.block);
        world_free(&world);
}
END_TEST

START_TEST(among_equals_mapped_comes_first_then_cached_last)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held[4];

        cache_several(&world, client, 4 * MIB, 4, held);
        unmap(&world, client, held[0].id);
        unmap(&world, client, held[3].id);
        /* The sibling maps none: the one cached last. */
        ask(&world, sibling, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[3].block);
        /* The client maps 1 and 2: of these the one cached last. */
        ask(&world, client, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[2].block);
        ask(&world, client, 2, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[1].block);
        ask(&world, client, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[0].block);
        world_free(&world);
}
END_TEST

START_TEST(caching_again_makes_a_mapped_block_the_last_one)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held[2];

        cache_several(&world, client, 4 * MIB, 2, held);
        /* The sibling has both, and returns the older one last. */
        ask(&world, sibling, 1, 4 * MIB, 0);
        ask(&world, sibling, 2, 4 * MIB, 0);
        give_back(&world, sibling, expect_grant(&world, sibling, 1), RETURN_UNMAPPED);
        give_back(&world, sibling, expect_grant(&world, sibling, 2), RETURN_UNMAPPED);
        ask(&world, client, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[0].block);
        world_free(&world);
}
END_TEST

START_TEST(other_tenant_pool_or_properties_find_nothing)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *stranger = join(&world, 2);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        struct policy_ask other_pool = {.pool = 1, .serial = 1, .n_bytes = 4 * MIB};
        struct policy_ask other_properties = {.serial = 2, .n_bytes = 4 * MIB, .properties = 2};
        struct action action;

        ask(&world, stranger, 1, 4 * MIB, 0);
        ck_assert_ptr_ne(take(&world, ACTION_CREATE).block, held.block);
        ask_with(&world, client, &other_pool);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(action.pool, 1);
        ck_assert_uint_eq(block_pool(action.block), 1);
        ask_with(&world, client, &other_properties);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(block_properties(action.block), 2);
        ck_assert_uint_ne(block_id(action.block), block_id(held.block));
        world_free(&world);
}
END_TEST

START_TEST(bad_requests_are_refused_with_their_reason)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct policy_ask no_pool = {.pool = 2, .serial = 9, .n_bytes = 1};
        struct action action;

        ask_with(&world, client, &no_pool);
        action = take(&world, ACTION_REFUSE);
        ck_assert_int_eq(action.outcome, GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(action.pool, 2);
        ck_assert_uint_eq(action.serial, 9);
        ask(&world, client, 1, 0, 0);
        expect_refusal(&world, client, 1, GPUMEM_E_BAD_REQUEST);
        ask(&world, client, 2, 3 * MIB, 0);
        expect_refusal(&world, client, 2, GPUMEM_E_BAD_REQUEST);
        ask(&world, client, 3, 102 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 3, GPUMEM_E_TOO_LARGE);
        ask(&world, client, 4, 100 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, client, 4, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 4, GPUMEM_E_BAD_REQUEST);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 1);
        expect_totals(&world, 100 * MIB, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(sixty_four_requests_may_wait)
{
        struct world world = world_new(4 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);

        (void)hold(&world, sibling, 4 * MIB);
        for (uint32_t serial = 1; serial <= 64; serial++)
                ask(&world, client, serial, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask(&world, client, 65, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 65, GPUMEM_E_TOO_MANY);
        policy_cancel(world.policy, client, 1, 0);
        expect_refusal(&world, client, 1, GPUMEM_E_CANCELLED);
        ask(&world, client, 65, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(slots_run_out_and_come_back)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held held[WORLD_N_SLOTS];
        struct lease *lease;

        for (uint32_t i = 0; i < WORLD_N_SLOTS; i++) {
                held[i] = hold(&world, client, 2 * MIB);
                ck_assert_uint_eq(lease_slot(held[i].lease), i);
        }
        ask(&world, client, 1, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 1, GPUMEM_E_TOO_MANY);
        /* Returned but mapped: the slot is not free. */
        give_back(&world, client, held[40].lease, RETURN_MAPPED);
        ask(&world, client, 2, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 2, GPUMEM_E_TOO_MANY);
        unmap(&world, client, held[40].id);
        give_back(&world, client, held[20].lease, RETURN_UNMAPPED);
        ask(&world, client, 3, 2 * MIB, 0);
        lease = expect_grant(&world, client, 3);
        ck_assert_uint_eq(lease_slot(lease), 20);
        ck_assert_uint_gt(lease_id(lease), held[WORLD_N_SLOTS - 1].id);
        world_free(&world);
}
END_TEST

START_TEST(pools_come_before_clients)
{
        struct world world = world_new(4 * MIB);
        struct policy_pool pool = {.kind = POLICY_DEVICE, .max_bytes = 2 * MIB};
        uint32_t id = 77;
        struct pool_stats unknown;

        ck_assert_int_eq(policy_pool_stats(world.policy, 2, &unknown), GPUMEM_E_NO_POOL);
        (void)join(&world, 1);
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), -EBUSY);
        ck_assert_uint_eq(id, 77);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                new_block_is_charged_from_the_action_on,
                cached_block_is_granted_at_once,
                an_eighth_more_serves_and_a_unit_beyond_does_not,
                smallest_block_that_serves_is_granted,
                among_equals_mapped_comes_first_then_cached_last,
                caching_again_makes_a_mapped_block_the_last_one,
                other_tenant_pool_or_properties_find_nothing,
                bad_requests_are_refused_with_their_reason,
                sixty_four_requests_may_wait,
                slots_run_out_and_come_back,
                pools_come_before_clients,
        };

        return run_tests("policy: lease", tests, ARRAY_SIZE(tests));
}
