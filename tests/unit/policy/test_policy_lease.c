/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are accepted, and which block serves them; leases that are given back, and mappings that stay; a block
 * that the client maps already comes back to it as it is; and what the policy writes on the board. */
#include "base/err.h"
#include "proto/board.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(new_block_is_charged_from_the_action_on, 100 * MIB)
{
        struct client *client = join(1);
        struct action action;
        struct lease *lease;

        ask(client, 7, 10 * MIB, 0);
        expect_totals(10 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
        action = take(ACTION_CREATE);
        ck_assert_uint_eq(action.pool, 0);
        ck_assert_uint_eq(block_bytes(action.block), 10 * MIB);
        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, 7);
        expect_idle();
        created(action.block, 0);
        ck_assert_ptr_eq(block_backing(action.block), &world);
        lease = expect_grant(client, 7);
        ck_assert_uint_ne(lease_id(lease), 0);
        ck_assert_uint_eq(lease_slot(lease), 0);
        ck_assert_ptr_eq(client_owner(client), &world);
        ck_assert_uint_eq(stats().n_creates, 1);
        ck_assert_uint_eq(stats().n_leases, 1);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
}

POLICY_TEST(cached_block_is_granted_at_once, 100 * MIB)
{
        struct client *client = join(1), *sibling = join(1);
        struct held held = cache(client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        expect_totals(0, 16 * MIB, 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ask(sibling, 5, 16 * MIB, 0);
        action = take(ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_uint_ne(lease_id(action.lease), held.id);
        ck_assert_uint_eq(client_charged(sibling, 0), 16 * MIB);
        ck_assert_uint_eq(stats().n_grants_from_cache, 1);
}

POLICY_TEST(among_equals_mapped_comes_first_then_cached_last, 100 * MIB)
{
        struct client *client = join(1), *sibling = join(1);
        struct held held[4];

        cache_several(client, 4 * MIB, 4, held);
        unmap(client, held[0].id);
        unmap(client, held[3].id);
        /* The sibling maps none of them: it gets the one cached last. */
        expect_served(sibling, 1, 4 * MIB, 0, held[3].block);
        /* The client maps 1 and 2: it gets the one of these that was cached last. */
        expect_served(client, 1, 4 * MIB, 0, held[2].block);
        expect_served(client, 2, 4 * MIB, 0, held[1].block);
        expect_served(client, 3, 4 * MIB, 0, held[0].block);
}

POLICY_TEST(caching_again_makes_a_mapped_block_the_last_one, 100 * MIB)
{
        struct client *client = join(1), *sibling = join(1);
        struct held held[2];

        cache_several(client, 4 * MIB, 2, held);
        /* The sibling has both, and returns the older one last. */
        ask(sibling, 1, 4 * MIB, 0);
        ask(sibling, 2, 4 * MIB, 0);
        give_back(sibling, expect_grant(sibling, 1), RETURN_UNMAPPED);
        give_back(sibling, expect_grant(sibling, 2), RETURN_UNMAPPED);
        expect_served(client, 3, 4 * MIB, 0, held[0].block);
}

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

POLICY_TEST(only_ones_own_lease_is_returned_and_once, 100 * MIB)
{
        struct client *client = join(1), *sibling = join(1);
        struct held held = hold(client, 4 * MIB);

        ck_assert_int_eq(policy_return(world.policy, sibling, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_return(world.policy, client, 0, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        give_back(client, held.lease, RETURN_MAPPED);
        ck_assert_int_eq(policy_return(world.policy, client, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, sibling, held.id, 0), GPUMEM_E_NO_LEASE);
        unmap(client, held.id);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        expect_totals(0, 4 * MIB, 0);
}

POLICY_TEST(grant_that_is_not_told_yet_cannot_be_returned, 100 * MIB)
{
        struct client *client = join(1);
        struct held held = cache(client, 4 * MIB, RETURN_UNMAPPED);
        struct lease *lease;

        /* Ids are easy to guess. */
        ask(client, 1, 4 * MIB, 0);
        ck_assert_int_eq(policy_return(world.policy, client, held.id + 1, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        lease = expect_grant(client, 1);
        ck_assert_uint_eq(lease_id(lease), held.id + 1);
        give_back(client, lease, RETURN_UNMAPPED);
}

static struct action ask_known(struct client *client, uint32_t serial, uint64_t n_bytes)
{
        struct policy_ask request = {.serial = serial, .n_bytes = n_bytes, .known_will_do = true};

        ask_with(client, &request);
        return next_action();
}

POLICY_TEST(mapped_block_is_known_and_goes_before_a_better_fit, 100 * MIB)
{
        struct client *client = join(1);
        struct held large = hold(client, 18 * MIB);
        struct held small = cache(client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        give_back(client, large.lease, RETURN_MAPPED);
        action = ask_known(client, 1, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert(action.known);
        ck_assert_ptr_eq(action.block, large.block);
        ck_assert_uint_ne(lease_slot(action.lease), lease_slot(large.lease));
        /* Both leases exist until the old one is unmapped; then only the new one does. */
        unmap(client, large.id);
        ck_assert_uint_eq(client_charged(client, 0), 18 * MIB);
        give_back(client, action.lease, RETURN_MAPPED);
        /* Without the flag, the best fit is taken. */
        ask(client, 2, 16 * MIB, 0);
        action = take(ACTION_GRANT);
        ck_assert_ptr_eq(action.block, small.block);
        ck_assert(!action.known);
}

static void ask_only_known(struct client *client, uint32_t serial, uint64_t n_bytes,
                           uint64_t deadline_ns)
{
        struct policy_ask request = {.serial = serial,
                                     .n_bytes = n_bytes,
                                     .known_will_do = true,
                                     .only_known = true,
                                     .deadline_ns = deadline_ns};

        ask_with(client, &request);
}

/* Neither cached blocks, nor other clients' idle blocks, nor room for a new one. */
POLICY_TEST(nothing_else_will_do, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(b, 16 * MIB);
        struct action action;

        (void)cache(b, 16 * MIB, RETURN_UNMAPPED);
        mark_idle(b, held.lease);
        ask_only_known(a, 1, 16 * MIB, 0);
        action = take(ACTION_REFUSE);
        ck_assert(action.only_known && action.outcome == GPUMEM_E_REFUSED);
        ask_only_known(a, 2, 16 * MIB, UINT64_MAX - 1);
        expect_refusal(a, 2, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(stats().n_refusals, 0);
        ck_assert(!was_revoked(b, held.lease));
}

static uint64_t word(const struct client *client, uint32_t slot)
{
        return atomic_load(word_of(client, slot));
}

POLICY_TEST(word_says_busy_before_the_grant_is_told, 100 * MIB)
{
        struct client *client = join(1);
        struct lease *lease;

        atomic_store(word_of(client, 0), UINT64_MAX);
        ask(client, 1, 4 * MIB, 0);
        ck_assert_uint_eq(word(client, 0), UINT64_MAX);
        created(take(ACTION_CREATE).block, 0);
        ck_assert_uint_eq(word(client, 0), board_word(1, BOARD_BUSY));
        lease = expect_grant(client, 1);
        ck_assert_uint_eq(lease_id(lease), 1);
        ck_assert_uint_eq(word(client, 0), board_word(1, BOARD_BUSY));
        ck_assert_uint_eq(word(client, 1), 0);
}

TESTS_MAIN("policy: lease")
