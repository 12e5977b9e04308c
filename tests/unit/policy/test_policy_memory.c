/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory: each allocation fails in turn, and the policy refuses and stays unchanged. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/unit/policy/policy_world.h"
#include "tests/unit/support/failing_alloc.h"

/* Returns whether the planned failure has happened, and removes it. */
static bool failure_was_hit(void)
{
        bool was_hit = n_until_failure < 0;

        n_until_failure = -1;
        return was_hit;
}

POLICY_TEST(every_failure_of_a_request_refuses_it, 100 * MIB)
{
        struct client *client = join(1);
        int n = 0;
        bool was_hit;

        do {
                n_until_failure = n++;
                ask(client, 1, 4 * MIB, UINT64_MAX);
                was_hit = failure_was_hit();
                policy_check(world.policy);
                if (!was_hit)
                        break;
                expect_refusal(client, 1, -ENOMEM);
                expect_idle();
                expect_totals(0, 0, 0);
                ck_assert_uint_eq(client_charged(client, 0), 0);
                ck_assert_uint_eq(stats().n_waiting, 0);
        } while (was_hit);
        /* The request, the lease, its table and the table's buckets, the block, its bin, the first
         * places of numbers. */
        ck_assert_int_eq(n, 7 + 1);
        ck_assert_uint_eq(lease_slot(expect_made(client, 1)), 0);
}

POLICY_TEST(every_failure_of_a_client_leaves_nothing, 100 * MIB)
{
        struct client *client = NULL;
        int r, n = 0;

        do {
                n_until_failure = n++;
                r = policy_add_client(world.policy, &(struct tenant_key){.uid = 1},
                                      &(struct tenant_key){.uid = 1}, 10, NULL, NULL, &client);
                if (failure_was_hit()) {
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert_ptr_null(client);
                }
                policy_check(world.policy);
        } while (r);
        ck_assert_int_eq(policy_add_client(world.policy, &(struct tenant_key){.uid = 1},
                                           &(struct tenant_key){.uid = 1}, 0, NULL, NULL, &client),
                         -EINVAL);
        ck_assert_int_ge(n, 5);
}

POLICY_TEST(failures_of_pools_and_policies, 100 * MIB)
{
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
}

POLICY_TEST(failure_of_release_all_keeps_the_cache, 100 * MIB)
{
        struct client *client = join(1);

        (void)cache(client, 4 * MIB, RETURN_UNMAPPED);
        n_until_failure = 0;
        ck_assert_int_eq(policy_release_all(world.policy, client, 1, SCOPE_TENANT, 0), -ENOMEM);
        expect_idle();
        expect_totals(0, 4 * MIB, 0);
}

TESTS_MAIN("policy: no memory")
