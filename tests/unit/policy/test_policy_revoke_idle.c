/* SPDX-License-Identifier: Apache-2.0 */
/* Idle leases change hands without their holder's help: within a tenant, back and forth between two
 * processes, and between tenants up to the minimum. */
#include "base/err.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "proto/board.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(idle_block_serves_another_client_of_the_tenant, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 36 * MIB);
        struct action action;

        mark_idle(a, held.lease);
        ask(b, 1, 32 * MIB, 0);
        action = take(ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_ptr_eq(action.client, b);
        ck_assert(was_revoked(a, held.lease));
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 36 * MIB);
        expect_totals(36 * MIB, 0, 0);
        ck_assert_uint_eq(stats().n_leases, 1);
        /* As after a return without an unmap. */
        ck_assert_int_eq(policy_return(world.policy, a, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        unmap(a, held.id);
        ck_assert_uint_eq(atomic_load(word_of(a, 0)), 0);
        expect_idle();
}

POLICY_TEST(nobody_is_revoked_without_need_or_right, 100 * MIB)
{
        struct client *a = join(1), *b = join(1), *other = join(2);
        struct held busy = hold(a, 4 * MIB), idle = hold_idle(a, 8 * MIB);

        /* In use; too large; of another tenant; its own. */
        expect_new(b, 1, 4 * MIB, 0);
        expect_new(b, 2, 6 * MIB, 0);
        expect_new(other, 1, 8 * MIB, 0);
        expect_new(a, 1, 8 * MIB, 0);
        ck_assert(!was_revoked(a, busy.lease) && !was_revoked(a, idle.lease));
}

POLICY_TEST(cached_block_goes_before_an_idle_one, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 16 * MIB);
        struct held cached = cache(a, 18 * MIB, RETURN_UNMAPPED);

        mark_idle(a, held.lease);
        expect_served(b, 1, 16 * MIB, 0, cached.block);
        expect_served(b, 2, 16 * MIB, 0, held.block);
}

POLICY_TEST(smallest_idle_block_that_fits_is_taken, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held large = hold_idle(a, 18 * MIB), small = hold_idle(a, 16 * MIB);

        expect_served(b, 1, 16 * MIB, 0, small.block);
        expect_served(b, 2, 16 * MIB, 0, large.block);
}

POLICY_TEST(lease_that_was_not_told_of_is_not_idle, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);

        ask(a, 1, 4 * MIB, 0);
        created(take(ACTION_CREATE).block, 0);
        atomic_store(word_of(a, 0), board_word(1, BOARD_IDLE));
        ask(b, 1, 4 * MIB, 0);
        (void)expect_grant(a, 1);
        (void)take(ACTION_CREATE);
}

POLICY_TEST(smaller_blocks_serve_if_they_may, 200 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[] = {hold(a, 8 * MIB), hold(a, 12 * MIB), hold(a, 14 * MIB)};
        struct held cached = cache(a, 10 * MIB, RETURN_UNMAPPED);
        struct policy_ask request = {.serial = 1, .n_bytes = 32 * MIB, .n_least_bytes = 10 * MIB};

        for (unsigned i = 0; i < 2; i++)
                mark_idle(a, held[i].lease);
        /* A cached block, though an idle one is larger; the largest idle one; none. */
        ask_with(b, &request);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, cached.block);
        request.serial = 2;
        ask_with(b, &request);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, held[1].block);
        request.serial = 3;
        ask_with(b, &request);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 32 * MIB);
        /* A block that is large enough is preferred to smaller ones. */
        mark_idle(a, held[2].lease);
        request = (struct policy_ask){.serial = 4, .n_bytes = 14 * MIB, .n_least_bytes = 2 * MIB};
        ask_with(b, &request);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, held[2].block);
}

/* The number of scans is limited, and each search continues where the last one ended. */
POLICY_TEST(many_busy_leases_do_not_hide_an_idle_one, 100 * GIB)
{
        struct client *holders[2 * REVOKE_IDLE_SCANS_A_REQUEST / WORLD_N_SLOTS + 1];
        struct client *b = join(1);
        struct held last;
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(holders); i++) {
                holders[i] = join(1);
                for (unsigned j = 0; j < WORLD_N_SLOTS; j++, n++)
                        last = hold(holders[i], 2 * MIB);
        }
        ck_assert_uint_gt(n, 2 * REVOKE_IDLE_SCANS_A_REQUEST);
        mark_idle(holders[ARRAY_SIZE(holders) - 1], last.lease);
        for (uint32_t i = 0; i < 2; i++) {
                ask(b, i, 2 * MIB, 0);
                expect_cancelled(b, i);
        }
        expect_served(b, 2, 2 * MIB, 0, last.block);
}

POLICY_TEST(idle_leases_give_way_to_their_tenants_limit, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[] = {hold(a, 4 * MIB), hold(a, 8 * MIB), hold(a, 4 * MIB)};

        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        mark_idle(a, held[0].lease);
        mark_idle(a, held[1].lease);
        /* A block that serves the request changes hands. */
        expect_served(b, 1, 8 * MIB, 0, held[1].block);
        ck_assert(!was_revoked(a, held[0].lease));
        /* A block that does not is cached then. */
        expect_new(b, 2, 2 * MIB, 0);
        ck_assert(was_revoked(a, held[0].lease));
        expect_totals(14 * MIB, 4 * MIB, 0);
        /* Blocks that would not be enough stay. */
        mark_idle(a, held[2].lease);
        expect_refused(b, 3, 16 * MIB, 0, GPUMEM_E_LIMIT);
        ck_assert(!was_revoked(a, held[2].lease));
}

POLICY_TEST(idle_leases_give_way_to_their_clients_limit, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[] = {hold(a, 4 * MIB), hold(b, 4 * MIB)};

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 1);
        mark_idle(b, held[1].lease);
        expect_refused(a, 1, 4 * MIB, 0, GPUMEM_E_LIMIT);
        mark_idle(a, held[0].lease);
        expect_new(a, 2, 8 * MIB, 0);
        ck_assert(was_revoked(a, held[0].lease));
        ck_assert(!was_revoked(b, held[1].lease));
}

POLICY_TEST(a_larger_block_does_not_pass_the_askers_limit, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 18 * MIB);

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        mark_idle(a, held.lease);
        expect_new(b, 1, 16 * MIB, 0);
        ck_assert(!was_revoked(a, held.lease));
}

POLICY_TEST(unusable_block_is_released_and_not_served, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 4 * MIB);

        policy_mark_unusable(world.policy, held.block, 0);
        mark_idle(a, held.lease);
        ask(b, 1, 4 * MIB, 0);
        expect_taken(a, &held);
        (void)take(ACTION_CREATE);
}

/* The client is granted the block of another client's idle lease, without a message to that client. */
static struct held take_over(struct client *client, uint64_t n_bytes)
{
        struct lease *lease;

        ask(client, 7, n_bytes, world.now_ns + REVOKE_IDLE_OTHERS_NS);
        lease = expect_grant(client, 7);
        return (struct held){.lease = lease, .block = lease_block(lease), .id = lease_id(lease)};
}

POLICY_TEST(where_there_is_none_it_comes_back_after_a_while, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held first = hold_idle(a, 16 * MIB), second;

        second = take_over(b, 16 * MIB);
        unmap(a, first.id);
        mark_idle(b, second.lease);
        expect_wait(a, 1, 16 * MIB, UINT64_MAX);
        /* Nor through the driver, for another size. */
        expect_wait(a, 2, 4 * MIB, UINT64_MAX);
        later(REVOKE_IDLE_BACK_NS - 1);
        expect_idle();
        later(1);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, first.block);
}

POLICY_TEST(who_is_out_of_time_takes_it_back, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held first = hold_idle(a, 16 * MIB), second;

        second = take_over(b, 16 * MIB);
        unmap(a, first.id);
        mark_idle(b, second.lease);
        expect_wait(a, 1, 16 * MIB, world.now_ns + 5);
        later(5);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, first.block);
}

/* If both map the block, neither needs a driver call. */
POLICY_TEST(what_is_mapped_still_goes_back_and_forth, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held first = hold(a, 16 * MIB), second;
        struct policy_ask known = {
                .serial = 1, .n_bytes = 16 * MIB, .known_will_do = true, .deadline_ns = UINT64_MAX};
        struct action action;

        mark_idle(a, first.lease);
        second = take_over(b, 16 * MIB);
        mark_idle(b, second.lease);
        ask_with(a, &known);
        action = take(ACTION_GRANT);
        ck_assert_ptr_eq(action.block, first.block);
        ck_assert(action.known);
}

POLICY_TEST(it_is_not_revoked_from_a_tenant_twice_at_once, 24 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        struct held first = hold(a, 8 * MIB), second = hold(a, 8 * MIB);
        struct held third = hold(c, 8 * MIB);

        mark_idle(a, first.lease);
        mark_idle(a, second.lease);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        expect_taken(a, &first);
        unmap(a, first.id);
        (void)expect_made(b, 1);
        ask(b, 2, 8 * MIB, UINT64_MAX);
        later(REVOKE_IDLE_OTHERS_NS - 1);
        expect_idle();
        /* Another client's block may be taken meanwhile. */
        mark_idle(c, third.lease);
        later(0);
        expect_taken(c, &third);
        expect_wait(b, 3, 8 * MIB, UINT64_MAX);
        unmap(c, third.id);
        (void)take(ACTION_CREATE);
        later(1);
        expect_taken(a, &second);
}

static void set_min(uint64_t min_bytes)
{
        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, min_bytes, world.now_ns), 0);
        policy_check(world.policy);
}

/* Leases in use count, too. */
POLICY_TEST(a_tenant_keeps_its_minimum, 24 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held busy = hold(a, 8 * MIB), first = hold(a, 8 * MIB);
        struct held second = hold(a, 8 * MIB);

        set_min(18 * MIB);
        mark_idle(a, first.lease);
        mark_idle(a, second.lease);
        expect_wait(b, 1, 8 * MIB, UINT64_MAX);
        set_min(16 * MIB);
        expect_taken(a, &first);
        unmap(a, first.id);
        (void)take(ACTION_CREATE);
        ask(b, 2, 8 * MIB, UINT64_MAX);
        later(REVOKE_IDLE_OTHERS_NS);
        expect_idle();
        ck_assert(!was_revoked(a, second.lease));
        ck_assert(!was_revoked(a, busy.lease));
}

/* Several leases are taken at a time, but not too many. */
POLICY_TEST(the_minimum_is_kept_in_one_go_too, 24 * MIB)
{
        struct client *a = join(1), *b = join(2), *kin = join(1);
        struct held held[3];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                held[i] = hold_idle(a, 8 * MIB);
        }
        set_min(10 * MIB);
        expect_wait(b, 1, 12 * MIB, UINT64_MAX);
        expect_cancelled(b, 1);
        /* Processes of the same tenant take what they need. */
        ask(kin, 1, 24 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                expect_taken(a, &held[i]);
        }
}

POLICY_TEST(what_is_cached_is_in_no_minimum, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = cache(a, 16 * MIB, RETURN_UNMAPPED);

        set_min(16 * MIB);
        ask(b, 1, 8 * MIB, 0);
        expect_release(held.block);
        (void)take(ACTION_CREATE);
        ck_assert_int_eq(policy_set_pool_min(world.policy, 9, 0, 0), GPUMEM_E_NO_POOL);
}

TESTS_MAIN("policy: revoke_idle")
