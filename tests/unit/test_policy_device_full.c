/* The driver has less than the pool's limit says. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

/* Asks, and the driver has nothing. */
static void ask_in_vain(struct world *world, struct client *client, uint32_t serial,
                        uint64_t n_bytes, uint64_t deadline_ns)
{
        ask(world, client, serial, n_bytes, deadline_ns);
        created(world, take(world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
}

START_TEST(one_that_does_not_wait_is_refused)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);

        ask_in_vain(&world, a, 1, 4 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        expect_totals(&world, 0, 0, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(stats(&world).n_blocks, 0);
        world_free(&world);
}
END_TEST

START_TEST(cached_blocks_are_released_and_it_is_tried_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held of_b = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct held of_a = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct block *block;

        ask_in_vain(&world, a, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, of_a.block);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, of_b.block);
        expect_idle(&world);
        released(&world, of_a.block);
        /* The rest is still on its way. */
        expect_idle(&world);
        released(&world, of_b.block);
        block = take(&world, ACTION_CREATE).block;
        expect_idle(&world);
        created(&world, block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}
END_TEST

START_TEST(only_as_many_bytes_are_released_as_were_asked_for)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held held[3];

        cache_several(&world, a, 4 * MIB, 3, held);
        for (unsigned i = 0; i < 3; i++)
                unmap(&world, a, held[i].id);
        ask_in_vain(&world, a, 1, 8 * MIB, 0);
        expect_release(&world, held[0].block);
        expect_release(&world, held[1].block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_release(&world, held[2].block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(it_is_not_tried_again_before_something_has_happened)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 4 * MIB);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        policy_expire(world.policy, 4999);
        expect_idle(&world);
        give_back(&world, b, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        policy_expire(world.policy, 5000);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        world_free(&world);
}
END_TEST

START_TEST(a_death_lets_it_try_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 4 * MIB);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        ck_assert(!policy_client_eof(world.policy, b, world.now_ns));
        expect_release(&world, held.block);
        expect_idle(&world);
        ck_assert(policy_client_dead(world.policy, b, world.now_ns));
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(unmapping_lets_it_try_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 4 * MIB, RETURN_MAPPED);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        expect_release(&world, held.block);
        expect_idle(&world);
        unmap(&world, b, held.id);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(bytes_that_came_back_meanwhile_are_tried_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, 0);
        block = take(&world, ACTION_CREATE).block;
        ck_assert_int_eq(policy_release_all(world.policy, b, 1, SCOPE_TENANT, 0), 0);
        expect_release(&world, held.block);
        (void)take(&world, ACTION_FREED);
        created(&world, block, GPUMEM_E_DEVICE_FULL);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}
END_TEST

START_TEST(it_keeps_its_place_in_the_queue)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held held = hold(&world, c, 4 * MIB);
        struct block *of_a, *of_b;

        ask(&world, a, 1, 8 * MIB, 5000);
        ask(&world, b, 1, 4 * MIB, 5000);
        of_a = take(&world, ACTION_CREATE).block;
        of_b = take(&world, ACTION_CREATE).block;
        created(&world, of_b, GPUMEM_E_DEVICE_FULL);
        created(&world, of_a, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        give_back(&world, c, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 8 * MIB);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                one_that_does_not_wait_is_refused,
                cached_blocks_are_released_and_it_is_tried_again,
                only_as_many_bytes_are_released_as_were_asked_for,
                it_is_not_tried_again_before_something_has_happened,
                a_death_lets_it_try_again,
                unmapping_lets_it_try_again,
                bytes_that_came_back_meanwhile_are_tried_at_once,
                it_keeps_its_place_in_the_queue,
        };

        return run_tests("policy: device full", tests, ARRAY_SIZE(tests));
}
