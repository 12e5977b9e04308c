/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are accepted, and which block serves them; leases that are given back, and mappings that stay; a block
 * that the client maps already comes back to it as it is. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

TEST(new_block_is_charged_from_the_action_on)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct action action;
        struct lease *lease;

        ask(&world, client, 7, 10 * MIB, 0);
        expect_totals(&world, 10 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(action.pool, 0);
        ck_assert_uint_eq(block_bytes(action.block), 10 * MIB);
        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, 7);
        expect_idle(&world);
        created(&world, action.block, 0);
        ck_assert_ptr_eq(block_backing(action.block), &world);
        lease = expect_grant(&world, client, 7);
        ck_assert_uint_ne(lease_id(lease), 0);
        ck_assert_uint_eq(lease_slot(lease), 0);
        ck_assert_ptr_eq(client_owner(client), &world);
        ck_assert_uint_eq(stats(&world).n_creates, 1);
        ck_assert_uint_eq(stats(&world).n_leases, 1);
        ck_assert_uint_eq(client_charged(client, 0), 10 * MIB);
        world_free(&world);
}

TEST(cached_block_is_granted_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        expect_totals(&world, 0, 16 * MIB, 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ask(&world, sibling, 5, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_uint_ne(lease_id(action.lease), held.id);
        ck_assert_uint_eq(client_charged(sibling, 0), 16 * MIB);
        ck_assert_uint_eq(stats(&world).n_grants_from_cache, 1);
        world_free(&world);
}

TEST(an_eighth_more_serves_and_a_unit_beyond_does_not)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 36 * MIB, RETURN_UNMAPPED);

        /* 32 MiB and an eighth are 36 MiB exactly. */
        ask(&world, client, 1, 32 * MIB, 0);
        give_back(&world, client, expect_grant(&world, client, 1), RETURN_UNMAPPED);
        ask(&world, client, 2, 30 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, client, 3, 38 * MIB, 0);
        ck_assert_ptr_ne(take(&world, ACTION_CREATE).block, held.block);
        ask(&world, client, 4, 36 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held.block);
        world_free(&world);
}

TEST(smallest_block_that_serves_is_granted)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held small = cache(&world, client, 34 * MIB, RETURN_UNMAPPED);
        struct held large = cache(&world, client, 36 * MIB, RETURN_UNMAPPED);

        ask(&world, client, 1, 32 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, small.block);
        ask(&world, client, 2, 32 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, large.block);
        world_free(&world);
}

TEST(among_equals_mapped_comes_first_then_cached_last)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held[4];

        cache_several(&world, client, 4 * MIB, 4, held);
        unmap(&world, client, held[0].id);
        unmap(&world, client, held[3].id);
        /* The sibling maps none: the one cached last. */
        ask(&world, sibling, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[3].block);
        /* The client maps 1 and 2: of these the one cached last. */
        ask(&world, client, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[2].block);
        ask(&world, client, 2, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[1].block);
        ask(&world, client, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[0].block);
        world_free(&world);
}

TEST(caching_again_makes_a_mapped_block_the_last_one)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held[2];

        cache_several(&world, client, 4 * MIB, 2, held);
        /* The sibling has both, and returns the older one last. */
        ask(&world, sibling, 1, 4 * MIB, 0);
        ask(&world, sibling, 2, 4 * MIB, 0);
        give_back(&world, sibling, expect_grant(&world, sibling, 1), RETURN_UNMAPPED);
        give_back(&world, sibling, expect_grant(&world, sibling, 2), RETURN_UNMAPPED);
        ask(&world, client, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held[0].block);
        world_free(&world);
}

TEST(other_tenant_pool_or_properties_find_nothing)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *stranger = join(&world, 2);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        struct policy_ask other_pool = {.pool = 1, .serial = 1, .n_bytes = 4 * MIB};
        struct policy_ask other_properties = {.serial = 2, .n_bytes = 4 * MIB, .properties = 2};
        struct action action;

        ask(&world, stranger, 1, 4 * MIB, 0);
        ck_assert_ptr_ne(take(&world, ACTION_CREATE).block, held.block);
        ask_with(&world, client, &other_pool);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(action.pool, 1);
        ck_assert_uint_eq(block_pool(action.block), 1);
        ask_with(&world, client, &other_properties);
        action = take(&world, ACTION_CREATE);
        ck_assert_uint_eq(block_properties(action.block), 2);
        ck_assert_uint_ne(block_id(action.block), block_id(held.block));
        world_free(&world);
}

TEST(bad_requests_are_refused_with_their_reason)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct policy_ask no_pool = {.pool = 2, .serial = 9, .n_bytes = 1};
        struct action action;

        ask_with(&world, client, &no_pool);
        action = take(&world, ACTION_REFUSE);
        ck_assert_int_eq(action.outcome, GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(action.pool, 2);
        ck_assert_uint_eq(action.serial, 9);
        ask(&world, client, 1, 0, 0);
        expect_refusal(&world, client, 1, GPUMEM_E_BAD_REQUEST);
        ask(&world, client, 2, 3 * MIB, 0);
        expect_refusal(&world, client, 2, GPUMEM_E_BAD_REQUEST);
        ask(&world, client, 3, 102 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 3, GPUMEM_E_TOO_LARGE);
        ask(&world, client, 4, 100 * MIB, 0);
        (void)take(&world, ACTION_CREATE);
        ask(&world, client, 4, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 4, GPUMEM_E_BAD_REQUEST);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 1);
        expect_totals(&world, 100 * MIB, 0, 0);
        world_free(&world);
}

TEST(sixty_four_requests_may_wait)
{
        struct world world = world_new(4 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);

        (void)hold(&world, sibling, 4 * MIB);
        for (uint32_t serial = 1; serial <= 64; serial++)
                ask(&world, client, serial, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask(&world, client, 65, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 65, GPUMEM_E_TOO_MANY);
        policy_cancel(world.policy, client, 1, 0);
        expect_refusal(&world, client, 1, GPUMEM_E_CANCELLED);
        ask(&world, client, 65, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        world_free(&world);
}

TEST(slots_run_out_and_come_back)
{
        struct world world = world_new(1000 * MIB);
        struct client *client = join(&world, 1);
        struct held held[WORLD_N_SLOTS];
        struct lease *lease;

        for (uint32_t i = 0; i < WORLD_N_SLOTS; i++) {
                held[i] = hold(&world, client, 2 * MIB);
                ck_assert_uint_eq(lease_slot(held[i].lease), i);
        }
        ask(&world, client, 1, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 1, GPUMEM_E_TOO_MANY);
        /* Returned but mapped: the slot is not free. */
        give_back(&world, client, held[40].lease, RETURN_MAPPED);
        ask(&world, client, 2, 2 * MIB, UINT64_MAX);
        expect_refusal(&world, client, 2, GPUMEM_E_TOO_MANY);
        unmap(&world, client, held[40].id);
        give_back(&world, client, held[20].lease, RETURN_UNMAPPED);
        ask(&world, client, 3, 2 * MIB, 0);
        lease = expect_grant(&world, client, 3);
        ck_assert_uint_eq(lease_slot(lease), 20);
        ck_assert_uint_gt(lease_id(lease), held[WORLD_N_SLOTS - 1].id);
        world_free(&world);
}

TEST(pools_come_before_clients)
{
        struct world world = world_new(4 * MIB);
        struct policy_pool pool = {.kind = POLICY_DEVICE, .max_bytes = 2 * MIB};
        uint32_t id = 77;
        struct pool_stats unknown;

        ck_assert_int_eq(policy_pool_stats(world.policy, 2, &unknown), GPUMEM_E_NO_POOL);
        (void)join(&world, 1);
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), -EBUSY);
        ck_assert_uint_eq(id, 77);
        world_free(&world);
}

TEST(only_ones_own_lease_is_returned_and_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        ck_assert_int_eq(policy_return(world.policy, sibling, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_return(world.policy, client, 0, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        give_back(&world, client, held.lease, RETURN_MAPPED);
        ck_assert_int_eq(policy_return(world.policy, client, held.id, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(policy_unmapped(world.policy, sibling, held.id, 0), GPUMEM_E_NO_LEASE);
        unmap(&world, client, held.id);
        ck_assert_int_eq(policy_unmapped(world.policy, client, held.id, 0), GPUMEM_E_NO_LEASE);
        expect_totals(&world, 0, 4 * MIB, 0);
        world_free(&world);
}

TEST(grant_that_is_not_told_yet_cannot_be_returned)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        struct lease *lease;

        /* Ids are easily guessed. */
        ask(&world, client, 1, 4 * MIB, 0);
        ck_assert_int_eq(policy_return(world.policy, client, held.id + 1, RETURN_UNMAPPED, 0),
                         GPUMEM_E_NO_LEASE);
        lease = expect_grant(&world, client, 1);
        ck_assert_uint_eq(lease_id(lease), held.id + 1);
        give_back(&world, client, lease, RETURN_UNMAPPED);
        world_free(&world);
}

TEST(block_may_be_mapped_by_several_while_one_leases_it)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);
        struct lease *of_b;

        ask(&world, b, 1, 4 * MIB, 0);
        of_b = expect_grant(&world, b, 1);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        unmap(&world, a, held.id);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, b, of_b, RETURN_UNMAPPED);
        expect_totals(&world, 0, 4 * MIB, 0);
        world_free(&world);
}

TEST(granting_what_is_still_mapped_keeps_both_slots)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_MAPPED);
        struct lease *again;

        ask(&world, client, 1, 4 * MIB, 0);
        again = expect_grant(&world, client, 1);
        ck_assert_uint_eq(lease_slot(again), 1);
        unmap(&world, client, held.id);
        give_back(&world, client, again, RETURN_UNMAPPED);
        ask(&world, client, 2, 4 * MIB, 0);
        ck_assert_uint_eq(lease_slot(expect_grant(&world, client, 2)), 0);
        world_free(&world);
}

static struct lease *lease_shareable(struct world *world, struct client *client)
{
        struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .properties = POLICY_SHAREABLE};

        ask_with(world, client, &request);
        created(world, take(world, ACTION_CREATE).block, 0);
        return expect_grant(world, client, 1);
}

TEST(shareable_block_is_never_cached)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease = lease_shareable(&world, client);

        give_back(&world, client, lease, RETURN_UNMAPPED);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        released(&world, take(&world, ACTION_RELEASE).block);
        expect_totals(&world, 0, 0, 0);
        ck_assert_uint_eq(stats(&world).n_blocks, 0);
        world_free(&world);
}

TEST(shareable_block_lingers_while_mapped)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease = lease_shareable(&world, client);
        uint64_t id = lease_id(lease);

        give_back(&world, client, lease, RETURN_MAPPED);
        ck_assert_uint_eq(client_charged(client, 0), 4 * MIB);
        released(&world, take(&world, ACTION_RELEASE).block);
        expect_totals(&world, 0, 0, 4 * MIB);
        unmap(&world, client, id);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

static struct action ask_known(struct world *world, struct client *client, uint32_t serial,
                               uint64_t n_bytes)
{
        struct policy_ask request = {.serial = serial, .n_bytes = n_bytes, .known_will_do = true};

        ask_with(world, client, &request);
        return next_action(world);
}

TEST(mapped_block_is_known_and_goes_before_a_better_fit)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held large = hold(&world, client, 18 * MIB);
        struct held small = cache(&world, client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        give_back(&world, client, large.lease, RETURN_MAPPED);
        action = ask_known(&world, client, 1, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert(action.known);
        ck_assert_ptr_eq(action.block, large.block);
        ck_assert_uint_ne(lease_slot(action.lease), lease_slot(large.lease));
        /* Both leases stand until the old one is unmapped; then the new one goes on. */
        unmap(&world, client, large.id);
        ck_assert_uint_eq(client_charged(client, 0), 18 * MIB);
        give_back(&world, client, action.lease, RETURN_MAPPED);
        /* Without the flag it is the best fit. */
        ask(&world, client, 2, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, small.block);
        ck_assert(!action.known);
        world_free(&world);
}

TEST(without_the_flag_nothing_is_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct action action;

        ask(&world, client, 1, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}

static void ask_only_known(struct world *world, struct client *client, uint32_t serial,
                           uint64_t n_bytes, uint64_t deadline_ns)
{
        struct policy_ask request = {.serial = serial,
                                     .n_bytes = n_bytes,
                                     .known_will_do = true,
                                     .only_known = true,
                                     .deadline_ns = deadline_ns};

        ask_with(world, client, &request);
}

/* Neither what is cached, nor what is idle in others' hands, nor room for a new one. */
TEST(nothing_else_will_do)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, b, 16 * MIB);
        struct action action;

        (void)cache(&world, b, 16 * MIB, RETURN_UNMAPPED);
        mark_idle(&world, b, held.lease);
        ask_only_known(&world, a, 1, 16 * MIB, 0);
        action = take(&world, ACTION_REFUSE);
        ck_assert(action.only_known && action.outcome == GPUMEM_E_REFUSED);
        ask_only_known(&world, a, 2, 16 * MIB, UINT64_MAX - 1);
        expect_refusal(&world, a, 2, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(stats(&world).n_refusals, 0);
        ck_assert(!was_revoked(&world, b, held.lease));
        world_free(&world);
}

TEST(what_is_known_will_do)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct action action;

        ask_only_known(&world, client, 1, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known);
        world_free(&world);
}

TEST(unmapped_before_the_answer_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct policy_ask request = {.serial = 1, .n_bytes = 16 * MIB, .known_will_do = true};
        struct action action;

        ask_with(&world, client, &request);
        unmap(&world, client, held.id);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}

TEST(what_others_map_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 16 * MIB, RETURN_MAPPED);
        struct action action = ask_known(&world, b, 1, 16 * MIB);

        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}

TEST(too_small_or_too_large_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        (void)cache(&world, client, 14 * MIB, RETURN_MAPPED);
        (void)cache(&world, client, 20 * MIB, RETURN_MAPPED);
        ck_assert_int_eq(ask_known(&world, client, 1, 16 * MIB).kind, ACTION_CREATE);
        world_free(&world);
}

TEST(idle_in_anothers_hands_comes_back_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 18 * MIB, RETURN_MAPPED);
        struct action action;
        struct lease *lease;

        ask(&world, b, 1, 18 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        ck_assert_int_eq(ask_known(&world, a, 1, 16 * MIB).kind, ACTION_CREATE);
        mark_idle(&world, b, lease);
        action = ask_known(&world, a, 2, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known && was_revoked(&world, b, lease));
        ck_assert_uint_eq(client_charged(b, 0), 0);
        world_free(&world);
}

TEST(revoked_block_comes_back_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 16 * MIB);
        struct action action;
        struct lease *lease;

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 16 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        give_back(&world, b, lease, RETURN_UNMAPPED);
        action = ask_known(&world, a, 1, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known);
        /* The word of the old lease stays what it is, until it is unmapped. */
        ck_assert(was_revoked(&world, a, held.lease));
        unmap(&world, a, held.id);
        world_free(&world);
}

TESTS_MAIN("policy: lease")
