/* Requests that wait: order, deadlines. */
#include "base/err.h"
#include "daemon/policy/state/types.h"
#include "tests/unit/policy_world.h"

START_TEST(room_goes_to_the_one_that_asked_first)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held held[2];

        held[0] = hold(&world, c, 4 * MIB);
        held[1] = hold(&world, c, 4 * MIB);
        ask(&world, a, 1, 8 * MIB, UINT64_MAX);
        ask(&world, b, 1, 6 * MIB, UINT64_MAX);
        give_back(&world, c, held[0].lease, RETURN_UNMAPPED);
        expect_idle(&world);
        give_back(&world, c, held[1].lease, RETURN_UNMAPPED);
        expect_release(&world, held[0].block);
        expect_release(&world, held[1].block);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 8 * MIB);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 2);
        world_free(&world);
}
END_TEST

START_TEST(cached_block_of_its_tenant_passes_the_queue)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[2];

        held[0] = hold(&world, b, 4 * MIB);
        held[1] = hold(&world, b, 4 * MIB);
        ask(&world, a, 1, 8 * MIB, UINT64_MAX);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        give_back(&world, b, held[0].lease, RETURN_UNMAPPED);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[0].block);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(returned_block_serves_the_oldest_of_its_tenant)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        ask(&world, a, 2, 4 * MIB, UINT64_MAX);
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        (void)expect_grant(&world, b, 1);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(several_are_served_by_one_release)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 8 * MIB, RETURN_UNMAPPED);

        ask(&world, a, 1, 4 * MIB, 0);
        ask(&world, a, 2, 4 * MIB, 0);
        ask(&world, a, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held.block);
        expect_refusal(&world, a, 3, GPUMEM_E_REFUSED);
        released(&world, held.block);
        (void)take(&world, ACTION_CREATE);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(deadline_is_refused_on_time_and_not_before)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)hold(&world, b, 4 * MIB);
        ask(&world, a, 1, 4 * MIB, 1000);
        expect_refusal(&world, a, 1, GPUMEM_E_REFUSED);
        ask(&world, a, 2, 4 * MIB, 7000);
        ask(&world, a, 3, 4 * MIB, 6000);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 6000);
        policy_expire(world.policy, 5999);
        expect_idle(&world);
        policy_expire(world.policy, 6000);
        expect_refusal(&world, a, 3, GPUMEM_E_TIMED_OUT);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 7000);
        policy_expire(world.policy, 9000);
        expect_refusal(&world, a, 2, GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        ck_assert_uint_eq(stats(&world).n_refusals, 3);
        ck_assert_uint_eq(stats(&world).n_waiting, 0);
        world_free(&world);
}
END_TEST

START_TEST(block_that_is_being_made_has_no_deadline)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, 2000);
        block = take(&world, ACTION_CREATE).block;
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        policy_expire(world.policy, 3000);
        expect_idle(&world);
        created(&world, block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}
END_TEST

START_TEST(failure_of_the_driver_refuses_with_it)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct block *block;

        ask(&world, a, 1, 8 * MIB, UINT64_MAX);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        block = take(&world, ACTION_CREATE).block;
        created(&world, block, GPUMEM_E_DRIVER);
        expect_refusal(&world, a, 1, GPUMEM_E_DRIVER);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        /* Its room is the next one's. */
        block = take(&world, ACTION_CREATE).block;
        created(&world, block, -EIO);
        expect_refusal(&world, b, 1, -EIO);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(in_turns_a_queue_is_walked_once_for_all)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 4 * MIB), other = hold(&world, a, 4 * MIB);
        uint64_t n_walks;

        policy_serve_in_turns(world.policy);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        ask(&world, b, 2, 4 * MIB, 0);
        expect_idle(&world);
        n_walks = world.policy->n_walks;
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        give_back(&world, a, other.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_declare(world.policy, b, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
        expect_release(&world, held.block);
        expect_release(&world, other.block);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 4 * MIB);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 4 * MIB);
        policy_serve(world.policy, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 2);
        world_free(&world);
}
END_TEST

/* Many declare what they declared before. */
START_TEST(nobody_is_looked_at_when_nothing_has_changed)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);
        uint64_t n_walks;

        client_set_held(a, 4 * MIB);
        n_walks = world.policy->n_walks;
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(policy_declare(world.policy, a, 0, 4 * MIB, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        ck_assert_int_eq(policy_declare(world.policy, a, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
        world_free(&world);
}
END_TEST

START_TEST(so_many_of_a_tenant_wait_and_no_more)
{
        struct world world = world_new(8 * MIB);
        struct client *other = join(&world, 2);
        uint32_t n = 0;

        (void)hold(&world, other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (unsigned i = 0; i < 17; i++) {
                struct client *client = join(&world, 1);

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
        ask(&world, other, 1, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 1024 + 1);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                room_goes_to_the_one_that_asked_first,
                cached_block_of_its_tenant_passes_the_queue,
                returned_block_serves_the_oldest_of_its_tenant,
                several_are_served_by_one_release,
                deadline_is_refused_on_time_and_not_before,
                block_that_is_being_made_has_no_deadline,
                failure_of_the_driver_refuses_with_it,
                in_turns_a_queue_is_walked_once_for_all,
                nobody_is_looked_at_when_nothing_has_changed,
                so_many_of_a_tenant_wait_and_no_more,
        };

        return run_tests("policy: queue", tests, ARRAY_SIZE(tests));
}
