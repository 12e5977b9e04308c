/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: order, deadlines; and one that is withdrawn, in each state that it can be in. */
#include "base/err.h"
#include "daemon/policy/state/types.h"
#include "tests/unit/policy_world.h"

TEST(room_goes_to_the_one_that_asked_first)
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

TEST(cached_block_of_its_tenant_passes_the_queue)
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

TEST(returned_block_serves_the_oldest_of_its_tenant)
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

TEST(several_are_served_by_one_release)
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

TEST(deadline_is_refused_on_time_and_not_before)
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

TEST(block_that_is_being_made_has_no_deadline)
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

TEST(failure_of_the_driver_refuses_with_it)
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

TEST(in_turns_a_queue_is_walked_once_for_all)
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

/* Many declare what they declared before. */
TEST(nobody_is_looked_at_when_nothing_has_changed)
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

TEST(so_many_of_a_tenant_wait_and_no_more)
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

static void cancel(struct world *world, struct client *client, uint32_t serial)
{
        policy_cancel(world->policy, client, serial, world->now_ns);
        policy_check(world->policy);
}

TEST(unknown_and_answered_are_ignored)
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

TEST(waiting_one_makes_way_for_the_next)
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

TEST(serial_may_be_used_again)
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

TEST(block_whose_action_is_not_taken_is_never_made)
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

TEST(block_that_is_being_made_is_made_for_the_cache)
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

TEST(block_for_the_cache_may_fail_and_its_room_is_free)
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

TEST(shareable_block_for_no_client_is_released)
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

TEST(bytes_on_their_way_serve_the_next)
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

TESTS_MAIN("policy: queue")
