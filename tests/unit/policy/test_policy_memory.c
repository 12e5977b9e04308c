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

/* Asks, with so many allocations before the one that fails. Returns whether there are so many. */
static bool fails_after(struct client *client, int n)
{
        bool was_hit;

        n_until_failure = n;
        ask(client, 1, 4 * MIB, UINT64_MAX);
        was_hit = failure_was_hit();
        policy_check(world.policy);
        if (!was_hit)
                return false;
        expect_refusal(client, 1, -ENOMEM);
        expect_idle();
        expect_totals(0, 0, 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ck_assert_uint_eq(stats().n_waiting, 0);
        return true;
}

POLICY_TEST(every_failure_of_a_request_refuses_it, 100 * MIB)
{
        struct client *client = join(1);
        int n = 0;

        /* After the request the first places of leases, which stay. */
        ck_assert(fails_after(client, 1));
        ck_assert_ptr_null(client->places);
        ck_assert(fails_after(client, 2));
        ck_assert_ptr_nonnull(client->places);
        while (fails_after(client, n))
                n++;
        /* The request, the lease, the block, its bin, the first places of numbers. */
        ck_assert_int_eq(n, 5);
        ck_assert_uint_eq(lease_slot(expect_made(client, 1)), 0);
}

/* Leases are found in longer lists then. After the request the places are allocated. */
POLICY_TEST(without_memory_for_more_places_leases_are_found, 100 * MIB)
{
        struct client *client = join(1);
        struct held held[40];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                if (i >= 16)
                        n_until_failure = 1;
                held[i] = hold(client, 2 * MIB);
                ck_assert(i < 16 || failure_was_hit());
                ck_assert_uint_eq(client->n_places, 16);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                give_back(client, held[i].lease, RETURN_UNMAPPED);
        expect_totals(0, ARRAY_SIZE(held) * 2 * MIB, 0);
}

/* Each is found, whatever has gone before it. */
POLICY_TEST(places_grow_with_leases, 1000 * MIB)
{
        struct client *client = join(1);
        struct held held[100];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(client, 2 * MIB);
        ck_assert_uint_eq(client->n_places, 128);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                give_back(client, held[i * 37 % ARRAY_SIZE(held)].lease, RETURN_UNMAPPED);
        expect_totals(0, ARRAY_SIZE(held) * 2 * MIB, 0);
        ck_assert_uint_eq(client->n_places, 128);
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
