/* SPDX-License-Identifier: Apache-2.0 */
/* No memory: every call for it fails in turn, and the policy refuses and stays as it was. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/policy_world.h"

/* Whether a failure that was asked for has happened; none is to come in either case. */
static bool failure_was_hit(void)
{
        bool was_hit = n_until_failure < 0;

        n_until_failure = -1;
        return was_hit;
}

TEST(every_failure_of_a_request_refuses_it)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        int n = 0;
        bool was_hit;

        do {
                n_until_failure = n++;
                ask(&world, client, 1, 4 * MIB, UINT64_MAX);
                was_hit = failure_was_hit();
                policy_check(world.policy);
                if (!was_hit)
                        break;
                expect_refusal(&world, client, 1, -ENOMEM);
                expect_idle(&world);
                expect_totals(&world, 0, 0, 0);
                ck_assert_uint_eq(client_charged(client, 0), 0);
                ck_assert_uint_eq(stats(&world).n_waiting, 0);
        } while (was_hit);
        /* The request, the lease, its table and the table's buckets, the block, its bin. */
        ck_assert_int_eq(n, 6 + 1);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        ck_assert_uint_eq(lease_slot(expect_grant(&world, client, 1)), 0);
        world_free(&world);
}

TEST(every_failure_of_a_client_leaves_nothing)
{
        struct world world = world_new(100 * MIB);
        struct client *client = NULL;
        int r, n = 0;

        do {
                n_until_failure = n++;
                r = policy_add_client(world.policy, &(struct tenant_key){.uid = 1}, 10, NULL, NULL,
                                      &client);
                if (failure_was_hit()) {
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert_ptr_null(client);
                }
                policy_check(world.policy);
        } while (r);
        ck_assert_int_eq(policy_add_client(world.policy, &(struct tenant_key){.uid = 1}, 0, NULL,
                                           NULL, &client),
                         -EINVAL);
        ck_assert_int_ge(n, 5);
        world_free(&world);
}

TEST(failures_of_pools_and_policies)
{
        struct world world = world_new(100 * MIB);
        struct policy_pool pool = {.kind = POLICY_DEVICE, .max_bytes = 2 * MIB};
        struct policy *other = NULL;
        uint32_t id = 99;

        for (int n = 0; n < 2; n++) {
                n_until_failure = n;
                ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), -ENOMEM);
                ck_assert(failure_was_hit());
                ck_assert_uint_eq(id, 99);
        }
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), 0);
        ck_assert_uint_eq(id, 2);
        n_until_failure = 0;
        ck_assert_int_eq(policy_new(&other), -ENOMEM);
        ck_assert_ptr_null(other);
        world_free(&world);
}

TEST(failure_of_release_all_keeps_the_cache)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        (void)cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        n_until_failure = 0;
        ck_assert_int_eq(policy_release_all(world.policy, client, 1, SCOPE_TENANT, 0), -ENOMEM);
        expect_idle(&world);
        expect_totals(&world, 0, 4 * MIB, 0);
        world_free(&world);
}

TEST(waiting_request_is_refused_when_its_turn_finds_no_memory)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 8 * MIB);

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ask(&world, a, 2, 6 * MIB, UINT64_MAX);
        give_back(&world, b, held.lease, RETURN_UNMAPPED);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held.block);
        n_until_failure = 0;
        policy_released(world.policy, held.block, 0);
        ck_assert(failure_was_hit());
        expect_refusal(&world, a, 1, -ENOMEM);
        /* The next one has the room that this one was meant to have. */
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 6 * MIB);
        world_free(&world);
}

TEST(deeds_that_cannot_fail_need_no_memory)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 8 * MIB);
        struct action release;
        int r, n_left;
        bool was_gone[2];

        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        ask(&world, b, 2, 4 * MIB, 2000);
        /* Nothing is asserted before the end: that needs memory, too. */
        n_until_failure = 0;
        r = policy_return(world.policy, a, held.id, RETURN_UNMAPPED, 0);
        policy_cancel(world.policy, b, 1, 0);
        release = policy_next_action(world.policy);
        policy_expire(world.policy, 2000);
        was_gone[0] = policy_client_eof(world.policy, a, 0);
        was_gone[1] = policy_client_dead(world.policy, a, 0);
        policy_cancel(world.policy, b, 2, 0);
        policy_released(world.policy, release.block, 0);
        n_left = n_until_failure;
        n_until_failure = -1;
        ck_assert_int_eq(n_left, 0);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(release.kind, ACTION_RELEASE);
        ck_assert(!was_gone[0] && was_gone[1]);
        expect_refusal(&world, b, 1, GPUMEM_E_CANCELLED);
        expect_refusal(&world, b, 2, GPUMEM_E_CANCELLED);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TESTS_MAIN("policy: no memory")
