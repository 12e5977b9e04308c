/* SPDX-License-Identifier: Apache-2.0 */
/* Idle leases change hands without the holder's help: within a tenant, back and forth between two processes, and of
 * other tenants what is not taken. */
#include "base/err.h"
#include "daemon/policy/scheduling/revocation.h"
#include "proto/board.h"
#include "tests/unit/policy_world.h"

TEST(idle_block_serves_another_client_of_the_tenant)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 36 * MIB);
        struct action action;

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 32 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_ptr_eq(action.client, b);
        ck_assert(was_revoked(&world, a, held.lease));
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 36 * MIB);
        expect_totals(&world, 36 * MIB, 0, 0);
        ck_assert_uint_eq(stats(&world).n_leases, 1);
        /* As after a return that did not unmap. */
        ck_assert_int_eq(policy_return(world.policy, a, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(atomic_load(word_of(&world, a, 0)), 0);
        expect_idle(&world);
        world_free(&world);
}

TEST(nobody_is_revoked_without_need_or_right)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *other = join(&world, 2);
        struct held busy = hold(&world, a, 4 * MIB), idle = hold(&world, a, 8 * MIB);

        mark_idle(&world, a, idle.lease);
        /* In use; too large; another tenant's; its own. */
        ask(&world, b, 1, 4 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, b, 2, 6 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, other, 1, 8 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, a, 1, 8 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ck_assert(!was_revoked(&world, a, busy.lease) && !was_revoked(&world, a, idle.lease));
        world_free(&world);
}

TEST(cached_block_goes_before_an_idle_one)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 16 * MIB);
        struct held cached = cache(&world, a, 18 * MIB, RETURN_UNMAPPED);

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 16 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, cached.block);
        ask(&world, b, 2, 16 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held.block);
        world_free(&world);
}

TEST(smallest_idle_block_that_fits_is_taken)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held large = hold(&world, a, 18 * MIB), small = hold(&world, a, 16 * MIB);

        mark_idle(&world, a, large.lease);
        mark_idle(&world, a, small.lease);
        ask(&world, b, 1, 16 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, small.block);
        ask(&world, b, 2, 16 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, large.block);
        world_free(&world);
}

TEST(one_that_was_taken_back_stays)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        mark_idle(&world, a, held.lease);
        ck_assert(board_step(word_of(&world, a, 0), held.id, BOARD_IDLE, BOARD_BUSY));
        ask(&world, b, 1, 4 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(lies_change_nothing)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);
        const uint64_t lies[] = {
                0,
                UINT64_MAX,
                BOARD_IDLE,
                board_word(held.id + 1, BOARD_IDLE),
                board_word(held.id, BOARD_REVOKED),
                board_word(held.id, 0),
                board_word(held.id, 99),
        };

        for (uint32_t i = 0; i < ARRAY_SIZE(lies); i++) {
                atomic_store(word_of(&world, a, 0), lies[i]);
                ask(&world, b, i, 4 * MIB, 0);
                created(&world, take(&world, ACTION_CREATE).block, 0);
                give_back(&world, b, expect_grant(&world, b, i), RETURN_UNMAPPED);
                ck_assert_int_eq(policy_release_all(world.policy, b, 9, SCOPE_TENANT, 0), 0);
                released(&world, take(&world, ACTION_RELEASE).block);
                (void)take(&world, ACTION_FREED);
                ck_assert_uint_eq(atomic_load(word_of(&world, a, 0)), lies[i]);
        }
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(atomic_load(word_of(&world, a, 0)), 0);
        world_free(&world);
}

TEST(lease_that_was_not_told_of_is_not_idle)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);

        ask(&world, a, 1, 4 * MIB, 0);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        atomic_store(word_of(&world, a, 0), board_word(1, BOARD_IDLE));
        ask(&world, b, 1, 4 * MIB, 0);
        (void)expect_grant(&world, a, 1);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(shareable_block_is_never_taken)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .properties = POLICY_SHAREABLE};

        ask_with(&world, a, &request);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        mark_idle(&world, a, expect_grant(&world, a, 1));
        ask_with(&world, b, &request);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(smaller_blocks_serve_if_they_may)
{
        struct world world = world_new(200 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held[] = {hold(&world, a, 8 * MIB), hold(&world, a, 12 * MIB),
                              hold(&world, a, 14 * MIB)};
        struct held cached = cache(&world, a, 10 * MIB, RETURN_UNMAPPED);
        struct policy_ask request = {.serial = 1, .n_bytes = 32 * MIB, .n_least_bytes = 10 * MIB};

        for (unsigned i = 0; i < 2; i++)
                mark_idle(&world, a, held[i].lease);
        /* A cached one, though an idle one is larger; the largest idle one; none. */
        ask_with(&world, b, &request);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, cached.block);
        request.serial = 2;
        ask_with(&world, b, &request);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[1].block);
        request.serial = 3;
        ask_with(&world, b, &request);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 32 * MIB);
        /* What fits goes before what does not. */
        mark_idle(&world, a, held[2].lease);
        request = (struct policy_ask){.serial = 4, .n_bytes = 14 * MIB, .n_least_bytes = 2 * MIB};
        ask_with(&world, b, &request);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[2].block);
        world_free(&world);
}

/* Searches are bounded, and each goes on where the last one ended. */
TEST(many_busy_leases_do_not_hide_an_idle_one)
{
        struct world world = world_new(100 * GIB);
        struct client *holders[2 * REVOCATION_SCANS_A_REQUEST / WORLD_N_SLOTS + 1];
        struct client *b = join(&world, 1);
        struct held last;
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(holders); i++) {
                holders[i] = join(&world, 1);
                for (unsigned j = 0; j < WORLD_N_SLOTS; j++, n++)
                        last = hold(&world, holders[i], 2 * MIB);
        }
        ck_assert_uint_gt(n, 2 * REVOCATION_SCANS_A_REQUEST);
        mark_idle(&world, holders[ARRAY_SIZE(holders) - 1], last.lease);
        for (uint32_t i = 0; i < 2; i++) {
                ask(&world, b, i, 2 * MIB, 0);
                policy_cancel(world.policy, b, i, 0);
                expect_refusal(&world, b, i, GPUMEM_E_CANCELLED);
        }
        ask(&world, b, 2, 2 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, last.block);
        world_free(&world);
}

static void limit(struct world *world, enum limit_scope scope, enum limit_kind kind, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world->policy, scope, POLICY_EVERY_UID, kind, max, 0), 0);
        policy_check(world->policy);
}

TEST(idle_leases_give_way_to_their_tenants_limit)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held[] = {hold(&world, a, 4 * MIB), hold(&world, a, 8 * MIB),
                              hold(&world, a, 4 * MIB)};

        limit(&world, LIMIT_OF_TENANT, LIMIT_DEVICE_BYTES, 16 * MIB);
        mark_idle(&world, a, held[0].lease);
        mark_idle(&world, a, held[1].lease);
        /* One that serves changes hands. */
        ask(&world, b, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[1].block);
        ck_assert(!was_revoked(&world, a, held[0].lease));
        /* One that does not is in the cache then. */
        ask(&world, b, 2, 2 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ck_assert(was_revoked(&world, a, held[0].lease));
        expect_totals(&world, 14 * MIB, 4 * MIB, 0);
        /* What would not be enough stays. */
        mark_idle(&world, a, held[2].lease);
        ask(&world, b, 3, 16 * MIB, 0);
        expect_refusal(&world, b, 3, GPUMEM_E_LIMIT);
        ck_assert(!was_revoked(&world, a, held[2].lease));
        world_free(&world);
}

TEST(idle_leases_give_way_to_their_clients_limit)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held[] = {hold(&world, a, 4 * MIB), hold(&world, b, 4 * MIB)};

        limit(&world, LIMIT_OF_CLIENT, LIMIT_LEASES, 1);
        mark_idle(&world, b, held[1].lease);
        ask(&world, a, 1, 4 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_LIMIT);
        mark_idle(&world, a, held[0].lease);
        ask(&world, a, 2, 8 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ck_assert(was_revoked(&world, a, held[0].lease));
        ck_assert(!was_revoked(&world, b, held[1].lease));
        world_free(&world);
}

TEST(a_larger_block_does_not_pass_the_askers_limit)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 18 * MIB);

        limit(&world, LIMIT_OF_CLIENT, LIMIT_DEVICE_BYTES, 16 * MIB);
        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 16 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ck_assert(!was_revoked(&world, a, held.lease));
        world_free(&world);
}

TEST(unusable_block_is_released_and_not_served)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        policy_mark_unusable(world.policy, held.block, 0);
        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 4 * MIB, 0);
        expect_release(&world, held.block);
        expect_notice(&world, a, held.lease);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

/* The client is granted the block of an idle lease of another one, which is told nothing. */
static struct held take_over(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct held held = {.lease = NULL};
        struct action action;

        ask(world, client, 7, n_bytes, world->now_ns + REVOCATION_OTHERS_NS);
        action = take(world, ACTION_GRANT);
        ck_assert_ptr_eq(action.client, client);
        held.lease = action.lease;
        held.block = action.block;
        held.id = lease_id(action.lease);
        return held;
}

TEST(where_there_is_room_both_get_a_block)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        ck_assert_ptr_eq(second.block, first.block);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        ck_assert(!was_revoked(&world, b, second.lease));
        world_free(&world);
}

TEST(where_there_is_none_it_comes_back_after_a_while)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        expect_idle(&world);
        /* Nor by way of the driver, for another size. */
        ask(&world, a, 2, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        world.now_ns += REVOCATION_BACK_NS - 1;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        world.now_ns++;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}

TEST(who_is_out_of_time_takes_it_back)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, world.now_ns + 5);
        expect_idle(&world);
        world.now_ns += 5;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}

TEST(a_third_one_may_have_it)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        mark_idle(&world, b, second.lease);
        ck_assert_ptr_eq(take_over(&world, c, 16 * MIB).block, first.block);
        world_free(&world);
}

/* One that both map costs neither of them a call of the driver. */
TEST(what_is_mapped_still_goes_back_and_forth)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;
        struct policy_ask known = {
                .serial = 1, .n_bytes = 16 * MIB, .known_will_do = true, .deadline_ns = UINT64_MAX};
        struct action action;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        mark_idle(&world, b, second.lease);
        ask_with(&world, a, &known);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, first.block);
        ck_assert(action.known);
        world_free(&world);
}

TEST(a_limit_is_no_reason_either)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_TENANT, POLICY_EVERY_UID,
                                          LIMIT_DEVICE_BYTES, 16 * MIB, 0),
                         0);
        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        expect_idle(&world);
        world.now_ns += REVOCATION_BACK_NS;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}

TEST(it_is_not_revoked_from_a_tenant_twice_at_once)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held first = hold(&world, a, 8 * MIB), second = hold(&world, a, 8 * MIB);
        struct held third = hold(&world, c, 8 * MIB);

        mark_idle(&world, a, first.lease);
        mark_idle(&world, a, second.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_release(&world, first.block);
        expect_notice(&world, a, first.lease);
        unmap(&world, a, first.id);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, b, 1);
        ask(&world, b, 2, 8 * MIB, UINT64_MAX);
        world.now_ns += REVOCATION_OTHERS_NS - 1;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        /* Another one may be meanwhile. */
        mark_idle(&world, c, third.lease);
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, third.block);
        expect_notice(&world, c, third.lease);
        ask(&world, b, 3, 8 * MIB, UINT64_MAX);
        expect_idle(&world);
        unmap(&world, c, third.id);
        (void)take(&world, ACTION_CREATE);
        world.now_ns += 1;
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, second.block);
        expect_notice(&world, a, second.lease);
        world_free(&world);
}

static void set_min(struct world *world, uint64_t min_bytes)
{
        ck_assert_int_eq(policy_set_pool_min(world->policy, 0, min_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

/* What it uses counts, too. */
TEST(a_tenant_keeps_its_minimum)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held busy = hold(&world, a, 8 * MIB), first = hold(&world, a, 8 * MIB);
        struct held second = hold(&world, a, 8 * MIB);

        set_min(&world, 18 * MIB);
        mark_idle(&world, a, first.lease);
        mark_idle(&world, a, second.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_idle(&world);
        set_min(&world, 16 * MIB);
        expect_release(&world, first.block);
        expect_notice(&world, a, first.lease);
        unmap(&world, a, first.id);
        (void)take(&world, ACTION_CREATE);
        ask(&world, b, 2, 8 * MIB, UINT64_MAX);
        world.now_ns += REVOCATION_OTHERS_NS;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, second.lease));
        ck_assert(!was_revoked(&world, a, busy.lease));
        world_free(&world);
}

/* Several are taken at a time, none too many. */
TEST(the_minimum_is_kept_in_one_go_too)
{
        struct world world = world_new(24 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *kin = join(&world, 1);
        struct held held[3];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                held[i] = hold(&world, a, 8 * MIB);
                mark_idle(&world, a, held[i].lease);
        }
        set_min(&world, 10 * MIB);
        ask(&world, b, 1, 12 * MIB, UINT64_MAX);
        expect_idle(&world);
        policy_cancel(world.policy, b, 1, world.now_ns);
        expect_refusal(&world, b, 1, GPUMEM_E_CANCELLED);
        /* Its own processes take what they need. */
        ask(&world, kin, 1, 24 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                expect_release(&world, held[i].block);
                expect_notice(&world, a, held[i].lease);
        }
        world_free(&world);
}

TEST(what_is_cached_is_in_no_minimum)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, a, 16 * MIB, RETURN_UNMAPPED);

        set_min(&world, 16 * MIB);
        ask(&world, b, 1, 8 * MIB, 0);
        expect_release(&world, held.block);
        (void)take(&world, ACTION_CREATE);
        ck_assert_int_eq(policy_set_pool_min(world.policy, 9, 0, 0), GPUMEM_E_NO_POOL);
        world_free(&world);
}

TEST(ones_own_tenant_is_not_spared)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *kin = join(&world, 1);
        struct held first = hold(&world, kin, 8 * MIB), second = hold(&world, kin, 8 * MIB);

        mark_idle(&world, kin, first.lease);
        mark_idle(&world, kin, second.lease);
        ask(&world, a, 1, 2 * MIB, UINT64_MAX);
        expect_release(&world, first.block);
        expect_notice(&world, kin, first.lease);
        unmap(&world, kin, first.id);
        (void)take(&world, ACTION_CREATE);
        ask(&world, a, 2, 12 * MIB, UINT64_MAX);
        expect_release(&world, second.block);
        expect_notice(&world, kin, second.lease);
        world_free(&world);
}

TESTS_MAIN("policy: revocation")
