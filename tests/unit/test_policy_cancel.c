/* A request that is withdrawn, in each state that it can be in. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

static void cancel(struct world *world, struct client *client, uint32_t serial)
{
        policy_cancel(world->policy, client, serial, world->now_ns);
        policy_check(world->policy);
}

START_TEST(unknown_and_answered_are_ignored)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);

        cancel(&world, a, 1);
        expect_idle(&world);
        (void)cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        ask(&world, a, 1, 4 * MIB, 0);
        cancel(&world, a, 1);
        (void)expect_grant(&world, a, 1);
        ask(&world, a, 2, 6 * MIB, 0);
        cancel(&world, a, 2);
        expect_refusal(&world, a, 2, GPUMEM_E_REFUSED);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(waiting_one_makes_way_for_the_next)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)hold(&world, b, 4 * MIB);
        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_refusals, 0);
        world_free(&world);
}
END_TEST

START_TEST(serial_may_be_used_again)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)hold(&world, b, 4 * MIB);
        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        cancel(&world, a, 1);
        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 1);
        world_free(&world);
}
END_TEST

START_TEST(block_whose_action_is_not_taken_is_never_made)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(block_that_is_being_made_is_made_for_the_cache)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        block = take(&world, ACTION_CREATE).block;
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        expect_totals(&world, 0, 4 * MIB, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        /* It will be there in a moment: kept, though it does not wait for others. */
        ask(&world, a, 2, 4 * MIB, 0);
        expect_idle(&world);
        created(&world, block, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, block);
        world_free(&world);
}
END_TEST

START_TEST(block_for_the_cache_may_fail_and_its_room_is_free)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        block = take(&world, ACTION_CREATE).block;
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        ask(&world, b, 1, 4 * MIB, 0);
        expect_idle(&world);
        created(&world, block, GPUMEM_E_DEVICE_FULL);
        ck_assert_ptr_ne(take(&world, ACTION_CREATE).block, NULL);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_blocks, 1);
        world_free(&world);
}
END_TEST

START_TEST(shareable_block_for_no_client_is_released)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1);
        struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .properties = POLICY_SHAREABLE};
        struct block *block;

        ask_with(&world, a, &request);
        block = take(&world, ACTION_CREATE).block;
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        created(&world, block, 0);
        expect_totals(&world, 0, 0, 4 * MIB);
        expect_release(&world, block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(bytes_on_their_way_serve_the_next)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held held = cache(&world, c, 4 * MIB, RETURN_UNMAPPED);

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        (void)take(&world, ACTION_RELEASE);
        cancel(&world, a, 1);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        released(&world, held.block);
        (void)take(&world, ACTION_CREATE);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                unknown_and_answered_are_ignored,
                waiting_one_makes_way_for_the_next,
                serial_may_be_used_again,
                block_whose_action_is_not_taken_is_never_made,
                block_that_is_being_made_is_made_for_the_cache,
                block_for_the_cache_may_fail_and_its_room_is_free,
                shareable_block_for_no_client_is_released,
                bytes_on_their_way_serve_the_next,
        };

        return run_tests("policy: cancel", tests, ARRAY_SIZE(tests));
}
