/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are accepted, which of them wait and how many, and when a pool may be added. */
#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(bad_requests_are_refused_with_their_reason, 100 * MIB)
{
        struct client *client = join(1);
        struct policy_ask no_pool = {.pool = 2, .serial = 9, .n_bytes = 1};
        struct action action;

        ask_with(client, &no_pool);
        action = take(ACTION_REFUSE);
        ck_assert_int_eq(action.outcome, GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(action.pool, 2);
        ck_assert_uint_eq(action.serial, 9);
        expect_refused(client, 1, 0, 0, GPUMEM_E_BAD_REQUEST);
        expect_refused(client, 2, 3 * MIB, 0, GPUMEM_E_BAD_REQUEST);
        expect_refused(client, 3, 102 * MIB, UINT64_MAX, GPUMEM_E_TOO_LARGE);
        expect_new(client, 4, 100 * MIB, 0);
        expect_refused(client, 4, 2 * MIB, UINT64_MAX, GPUMEM_E_BAD_REQUEST);
        expect_idle();
        ck_assert_uint_eq(stats().n_waiting, 1);
        expect_totals(100 * MIB, 0, 0);
}

POLICY_TEST(sixty_four_requests_may_wait, 4 * MIB)
{
        struct client *client = join(1), *sibling = join(1);

        (void)hold(sibling, 4 * MIB);
        for (uint32_t serial = 1; serial <= 64; serial++)
                expect_wait(client, serial, 2 * MIB, UINT64_MAX);
        expect_refused(client, 65, 2 * MIB, UINT64_MAX, GPUMEM_E_TOO_MANY);
        expect_cancelled(client, 1);
        expect_wait(client, 65, 2 * MIB, UINT64_MAX);
}

/* It would take a block that it maps already, and there is none. */
POLICY_TEST(a_request_for_known_blocks_waits_for_no_limit, 8 * MIB)
{
        const struct policy_ask known = {.serial = 1,
                                         .n_bytes = 2 * MIB,
                                         .known_will_do = true,
                                         .only_known = true,
                                         .deadline_ns = UINT64_MAX};
        struct client *client = join(1);

        (void)hold(client, 2 * MIB);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 1);
        ask_with(client, &known);
        expect_refusal(client, 1, GPUMEM_E_LIMIT);
}

POLICY_TEST(pools_come_before_clients, 4 * MIB)
{
        struct policy_pool pool = {.kind = POLICY_DEVICE, .max_bytes = 2 * MIB};
        uint32_t id = 77;
        struct pool_stats unknown;

        ck_assert_int_eq(policy_pool_stats(world.policy, 2, &unknown), GPUMEM_E_NO_POOL);
        (void)join(1);
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), -EBUSY);
        ck_assert_uint_eq(id, 77);
}

TESTS_MAIN("policy: lease")
