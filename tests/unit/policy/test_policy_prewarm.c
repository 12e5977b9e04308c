/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is created before a client asks, and memory that is cached for too long. */
#include "daemon/policy/prewarm.h"

#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

#define SECOND UINT64_C(1000000000)

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

POLICY_TEST(the_first_that_asks_has_it_for_life, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct block *block = prewarm_one(8 * MIB);
        struct lease *lease;

        expect_totals(0, 8 * MIB, 0);
        ask(a, 1, 8 * MIB, 0);
        lease = expect_grant(a, 1);
        ck_assert_ptr_eq(lease_block(lease), block);
        ck_assert(!block_is_unowned(block));
        ck_assert_uint_eq(client_charged(a, 0), 8 * MIB);
        give_back(a, lease, RETURN_UNMAPPED);
        /* It belongs to the client's tenant now; for another tenant a new block is created. */
        (void)hold(b, 8 * MIB);
        expect_served(a, 2, 8 * MIB, 0, block);
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

/* This counts as a bypass like any other, and the number is limited. */
POLICY_TEST(request_that_waits_for_room_is_bypassed_so_often, 96 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        unsigned n_passes = 0;

        for (unsigned i = 0; i < 12; i++)
                (void)prewarm_one(4 * MIB);
        (void)hold(a, 48 * MIB);
        ask(b, 1, 96 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < 12; i++) {
                struct action action;

                ask(c, i, 4 * MIB, 0);
                action = next_action();
                ck_assert(action.kind == ACTION_GRANT || action.kind == ACTION_REFUSE);
                n_passes += action.kind == ACTION_GRANT;
        }
        ck_assert_uint_eq(n_passes, 8);
}

/* A tenant that got one of them moves back in the queue, as with a block that is created. */
POLICY_TEST(they_go_round_by_turns, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 1);
        (void)hold(a, 8 * MIB);
        (void)hold(b, 8 * MIB);
        (void)prewarm_one(8 * MIB);
        (void)prewarm_one(8 * MIB);
        ask(a, 2, 8 * MIB, UINT64_MAX);
        ask(a, 3, 8 * MIB, UINT64_MAX);
        expect_wait(b, 2, 8 * MIB, UINT64_MAX);
        policy_set_limits(world.policy, NULL, 0);
        (void)expect_grant(a, 2);
        (void)expect_grant(b, 2);
        (void)expect_made(a, 3);
}

POLICY_TEST(what_cannot_be_made_is_told, 16 * MIB)
{
        struct client *a = join(1);
        struct block *block;

        ck_assert_int_eq(policy_prewarm(world.policy, 2, 4 * MIB, 0), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 0, 0), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 3 * MIB, 0), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 18 * MIB, 0), GPUMEM_E_REFUSED);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 16 * MIB, 0), 0);
        block = take(ACTION_CREATE).block;
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 2 * MIB, 0), GPUMEM_E_REFUSED);
        created(block, GPUMEM_E_DEVICE_FULL);
        expect_totals(0, 0, 0);
        (void)hold(a, 8 * MIB);
        ask(a, 9, 16 * MIB, UINT64_MAX);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 4 * MIB, 0), GPUMEM_E_REFUSED);
        expect_cancelled(a, 9);
        ck_assert_int_eq(policy_set_driver_status(world.policy, 0, DRIVER_STALLED, 0), 0);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 4 * MIB, 0), GPUMEM_E_STALLED);
        ck_assert_int_eq(policy_set_driver_status(world.policy, 0, DRIVER_SERVES, 0), 0);
        policy_set_max_blocks(world.policy, 1);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 4 * MIB, 0), GPUMEM_E_TOO_MANY);
        policy_set_max_blocks(world.policy, 1000);
        policy_shut_down(world.policy);
        ck_assert_int_eq(policy_prewarm(world.policy, 0, 4 * MIB, 0), GPUMEM_E_REFUSED);
        expect_idle();
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

POLICY_TEST(without_a_setting_it_stays_for_ever, 64 * MIB)
{
        (void)cache(join(1), 4 * MIB, RETURN_UNMAPPED);
        ck_assert(!policy_keeps_more(world.policy));
        policy_return_cached(world.policy, 100, 1000 * SECOND);
        expect_idle();
}

POLICY_TEST(what_is_over_goes_back_when_it_is_old_enough, 64 * MIB)
{
        struct client *a = join(1);
        struct held held[3];

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 2, 0, 0), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 4 * MIB, 10 * SECOND), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(a, 4 * MIB);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                world.now_ns = (i + 1) * SECOND;
                ck_assert_int_eq(policy_keeps_more(world.policy), i > 1);
                give_back(a, held[i].lease, RETURN_UNMAPPED);
        }
        ck_assert(policy_keeps_more(world.policy));
        policy_return_cached(world.policy, 100, 11 * SECOND - 1);
        expect_idle();
        policy_return_cached(world.policy, 100, 11 * SECOND);
        policy_check(world.policy);
        expect_release(held[0].block);
        expect_idle();
        ck_assert(policy_keeps_more(world.policy));
        policy_return_cached(world.policy, 0, 100 * SECOND);
        expect_idle();
        policy_return_cached(world.policy, 1, 100 * SECOND);
        expect_release(held[1].block);
        ck_assert(!policy_keeps_more(world.policy));
        policy_return_cached(world.policy, 100, 1000 * SECOND);
        expect_idle();
        expect_totals(0, 4 * MIB, 0);
}

/* Admission treats excess blocks in the same way (evict_cached.h). */
POLICY_TEST(what_is_kept_stays_beside_new_blocks, 1024 * MIB, .to = 2)
{
        const uint64_t kept_bytes = _i * 256 * MIB;
        struct client *a = join(1);
        struct held held[2];

        cache_several(a, 128 * MIB, ARRAY_SIZE(held), held);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                unmap(a, held[i].id);
        if (kept_bytes)
                ck_assert_int_eq(
                        policy_set_pool_keep(world.policy, 0, kept_bytes, POLICY_KEEP_FOR_EVER), 0);
        ask(a, 9, 8 * MIB, 0);
        (void)take(kept_bytes ? ACTION_CREATE : ACTION_RELEASE);
}

POLICY_TEST(what_is_kept_is_not_cut, 64 * MIB)
{
        struct client *a = join(1);

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 6 * MIB, 0), 0);
        (void)cache(a, 8 * MIB, RETURN_UNMAPPED);
        policy_return_cached(world.policy, 100, SECOND);
        expect_idle();
        expect_totals(0, 8 * MIB, 0);
        ck_assert(!policy_keeps_more(world.policy));
        /* A change of the settings starts another pass. */
        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 0, 0), 0);
        ck_assert(policy_keeps_more(world.policy));
}

POLICY_TEST(what_cannot_go_is_in_no_requests_way, 64 * MIB)
{
        struct client *a = join(1);
        const uint64_t sizes[] = {16 * MIB, 16 * MIB, 4 * MIB, 2 * MIB};
        struct held held[ARRAY_SIZE(sizes)];
        struct lease *lease;

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 28 * MIB, 0), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                held[i] = hold(a, sizes[i]);
        for (unsigned i = 0; i < 3; i++)
                give_back(a, held[i].lease, RETURN_UNMAPPED);
        for (unsigned i = 0; i < 2; i++) {
                policy_return_cached(world.policy, 1, SECOND);
                policy_check(world.policy);
                expect_idle();
                ck_assert(policy_keeps_more(world.policy));
        }
        policy_return_cached(world.policy, 1, SECOND);
        policy_check(world.policy);
        expect_release(held[2].block);
        /* 4 MiB are too much, and no block is that small. */
        ck_assert(!policy_keeps_more(world.policy));
        give_back(a, held[3].lease, RETURN_UNMAPPED);
        ck_assert(policy_keeps_more(world.policy));
        policy_return_cached(world.policy, 2, SECOND);
        /* Removes the block at which the next scan would begin. */
        policy_check(world.policy);
        ask(a, 9, 2 * MIB, 0);
        lease = expect_grant(a, 9);
        ck_assert_ptr_eq(lease_block(lease), held[3].block);
        policy_check(world.policy);
        give_back(a, lease, RETURN_UNMAPPED);
        policy_return_cached(world.policy, 3, SECOND);
        expect_release(held[3].block);
        ck_assert(!policy_keeps_more(world.policy));
}

TESTS_MAIN("policy: prewarm")
