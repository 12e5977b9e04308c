/* SPDX-License-Identifier: Apache-2.0 */
/* Which clients are charged most in a pool. */
#include "base/err.h"
#include "daemon/policy/report/listing.h"
#include "tests/unit/policy/policy_world.h"

#define N_MAX 8

struct listed {
        unsigned n;
        const struct client *clients[N_MAX];
};

static void take_holder(const struct client *client, void *argument)
{
        struct listed *listed = argument;

        ck_assert_uint_lt(listed->n, N_MAX);
        listed->clients[listed->n++] = client;
}

static struct listed list(const struct tenant *tenant, unsigned n_max)
{
        struct listed listed = {.n = 0};

        policy_list_holders(world.policy, 0, tenant, n_max, take_holder, &listed);
        return listed;
}

static void expect_sums(const struct tenant *tenant, uint64_t n_clients, uint64_t n_bytes)
{
        struct holder_sums sums = policy_sum_holders(world.policy, 0, tenant);

        ck_assert_uint_eq(sums.n_clients, n_clients);
        ck_assert_uint_eq(sums.n_bytes, n_bytes);
}

POLICY_TEST(larger_holders_come_first, 1024 * MIB)
{
        struct client *small = join(1), *large = join(1), *none = join(1), *other = join(2);
        struct listed listed;

        (void)hold(small, 4 * MIB);
        (void)hold(other, 16 * MIB);
        (void)hold(large, 64 * MIB);
        listed = list(NULL, N_MAX);
        ck_assert_uint_eq(listed.n, 3);
        ck_assert_ptr_eq(listed.clients[0], large);
        ck_assert_ptr_eq(listed.clients[1], other);
        ck_assert_ptr_eq(listed.clients[2], small);
        expect_sums(NULL, 3, 84 * MIB);
        listed = list(client_tenant(none), N_MAX);
        ck_assert_uint_eq(listed.n, 2);
        ck_assert_ptr_eq(listed.clients[0], large);
        ck_assert_ptr_eq(listed.clients[1], small);
        expect_sums(client_tenant(none), 2, 68 * MIB);
}

POLICY_TEST(no_more_are_listed_than_asked_for, 1024 * MIB)
{
        struct client *most = NULL;

        for (uint64_t i = 0; i < 5; i++) {
                most = join(1);
                (void)hold(most, (UINT64_C(2) << i) * MIB);
        }
        ck_assert_uint_eq(list(NULL, 2).n, 2);
        ck_assert_ptr_eq(list(NULL, 1).clients[0], most);
        ck_assert_uint_eq(list(NULL, 0).n, 0);
}

POLICY_TEST(a_holder_moves_with_what_it_is_charged, 1024 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held large = hold(a, 64 * MIB);

        (void)hold(a, 2 * MIB);
        (void)hold(b, 8 * MIB);
        ck_assert_ptr_eq(list(NULL, 1).clients[0], a);
        give_back(a, large.lease, RETURN_UNMAPPED);
        ck_assert_ptr_eq(list(NULL, 1).clients[0], b);
        expect_sums(NULL, 2, 10 * MIB);
        for (unsigned i = 0; i < 3; i++)
                (void)hold(a, 8 * MIB);
        ck_assert_ptr_eq(list(NULL, 1).clients[0], a);
}

TESTS_MAIN("policy: holders")
