/* Blocks whose bytes are not what they were made of are never served again. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

static void mark_unusable(struct world *world, struct block *block)
{
        policy_mark_unusable(world->policy, block, world->now_ns);
        policy_check(world->policy);
}

START_TEST(an_unusable_block_is_not_cached)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        mark_unusable(&world, held.block);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(an_unusable_cached_block_is_released_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_MAPPED);

        mark_unusable(&world, held.block);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 4 * MIB);
        unmap(&world, client, held.id);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

/* Another tenant waits: the room of the unusable block is its own. */
START_TEST(room_of_an_unusable_block_serves_a_waiting_request)
{
        struct world world = world_new(4 * MIB);
        struct client *one = join(&world, 1), *other = join(&world, 2);
        struct held held = hold(&world, one, 4 * MIB);

        ask(&world, other, 1, 4 * MIB, UINT64_MAX);
        mark_unusable(&world, held.block);
        expect_idle(&world);
        give_back(&world, one, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, other, 1);
        world_free(&world);
}
END_TEST

START_TEST(a_lease_is_told_by_its_client_only)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        ck_assert_ptr_null(policy_leased_block(sibling, held.id));
        ck_assert_ptr_null(policy_leased_block(client, held.id + 1));
        give_back(&world, client, held.lease, RETURN_MAPPED);
        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        mark_unusable(&world, held.block);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        expect_release(&world, held.block);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        unmap(&world, client, held.id);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                an_unusable_block_is_not_cached,
                an_unusable_cached_block_is_released_at_once,
                room_of_an_unusable_block_serves_a_waiting_request,
                a_lease_is_told_by_its_client_only,
        };

        return run_tests("policy: unusable", tests, ARRAY_SIZE(tests));
}
