/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is created before a client asks: of which sizes, and which request gets it. */
#include "daemon/policy/prewarm.h"

#include "tests/unit/policy/policy_world.h"

TEST(sizes_get_as_many_bytes_each)
{
        struct prewarm prewarm = {{0}};
        uint64_t n_bytes[PREWARM_N_SIZES] = {0}, n_left_bytes = 7 * 1024 * MIB;

        while (n_left_bytes) {
                uint64_t n_next_bytes = prewarm_next(&prewarm, n_left_bytes);
                unsigned size = 0;

                ck_assert_uint_gt(n_next_bytes, 0);
                ck_assert_uint_le(n_next_bytes, n_left_bytes);
                while (PREWARM_LEAST_BYTES << size < n_next_bytes)
                        size++;
                ck_assert_uint_eq(PREWARM_LEAST_BYTES << size, n_next_bytes);
                n_bytes[size] += n_next_bytes;
                n_left_bytes -= n_next_bytes;
        }
        for (unsigned size = 0; size < PREWARM_N_SIZES; size++)
                ck_assert_uint_eq(n_bytes[size], 1024 * MIB);
}

TEST(of_little_all_is_made)
{
        for (uint64_t n_all_bytes = 0; n_all_bytes < 600 * MIB; n_all_bytes += 2 * MIB) {
                struct prewarm prewarm = {{0}};
                uint64_t n_left_bytes = n_all_bytes, n_next_bytes;

                while ((n_next_bytes = prewarm_next(&prewarm, n_left_bytes))) {
                        ck_assert_uint_le(n_next_bytes, n_left_bytes);
                        ck_assert_uint_eq(n_next_bytes % (2 * MIB), 0);
                        n_left_bytes -= n_next_bytes;
                }
                ck_assert_uint_eq(n_left_bytes, 0);
        }
}

static struct block *prewarm_one(uint64_t n_bytes)
{
        struct action action;

        ck_assert_int_eq(policy_prewarm(world.policy, 0, n_bytes, world.now_ns), 0);
        policy_check(world.policy);
        action = take(ACTION_CREATE);
        ck_assert_ptr_null(action.client);
        ck_assert_uint_eq(block_bytes(action.block), n_bytes);
        ck_assert(block_is_awaited(action.block));
        ck_assert(block_is_unowned(action.block));
        created(action.block, 0);
        return action.block;
}

POLICY_TEST(a_smaller_one_will_do_where_it_may, 64 * MIB)
{
        struct client *a = join(1);
        struct policy_ask request = {.serial = 1, .n_bytes = 20 * MIB, .n_least_bytes = 6 * MIB};
        struct block *block;

        (void)prewarm_one(4 * MIB);
        block = prewarm_one(16 * MIB);
        (void)prewarm_one(8 * MIB);
        ask_with(a, &request);
        ck_assert_ptr_eq(lease_block(expect_grant(a, 1)), block);
}

POLICY_TEST(what_is_made_while_it_ends_goes_back, 16 * MIB)
{
        struct block *block;

        ck_assert_int_eq(policy_prewarm(world.policy, 0, 4 * MIB, 0), 0);
        block = take(ACTION_CREATE).block;
        policy_shut_down(world.policy);
        ck_assert(!block_is_awaited(block));
        created(block, 0);
        expect_release(block);
        expect_totals(0, 0, 0);
}

TESTS_MAIN("policy: prewarm")
