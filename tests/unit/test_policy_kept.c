/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are given back and that their clients keep mapped, whether they say so or not: who is charged. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

#define PINNED 1

static void set_limit(struct world *world, enum limit_scope scope, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world->policy, scope, POLICY_EVERY_UID,
                                          LIMIT_PINNED_BYTES, max, world->now_ns),
                         0);
        policy_check(world->policy);
}

static void ask_to_keep(struct world *world, struct client *client, uint32_t serial,
                        uint64_t n_bytes, uint64_t deadline_ns)
{
        struct policy_ask request = {.pool = PINNED,
                                     .serial = serial,
                                     .n_bytes = n_bytes,
                                     .keeps_mapped = true,
                                     .deadline_ns = deadline_ns};

        ask_with(world, client, &request);
}

static struct held hold_to_keep(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct held held;

        ask_to_keep(world, client, 99, n_bytes, 0);
        held.block = take(world, ACTION_CREATE).block;
        created(world, held.block, 0);
        held.lease = expect_grant(world, client, 99);
        held.id = lease_id(held.lease);
        return held;
}

static struct held keep(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct held held = hold_to_keep(world, client, n_bytes);

        give_back(world, client, held.lease, RETURN_MAPPED);
        return held;
}

static uint64_t charged(const struct client *client)
{
        ck_assert_uint_eq(client_usage(client)->n[LIMIT_PINNED_BYTES],
                          client_charged(client, PINNED));
        return client_charged(client, PINNED);
}

static struct limit_hit expect_limit(struct world *world, const struct client *client,
                                     uint32_t serial)
{
        struct action action = take(world, ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, GPUMEM_E_LIMIT);
        return action.limit;
}

TEST(it_is_charged_until_it_is_unmapped)
{
        struct world world = world_new(16 * MIB);
        struct client *client = join(&world, 1);
        struct held held = keep(&world, client, 8 * MIB);

        ck_assert_uint_eq(charged(client), 8 * MIB);
        ck_assert_uint_eq(client_kept(client)->n[LIMIT_PINNED_BYTES], 8 * MIB);
        ck_assert_uint_eq(client_tenant_kept(client)->n[LIMIT_LEASES], 1);
        unmap(&world, client, held.id);
        ck_assert_uint_eq(charged(client), 0);
        ck_assert_uint_eq(client_kept(client)->n[LIMIT_PINNED_BYTES], 0);
        ck_assert_uint_eq(client_tenant_usage(client)->n[LIMIT_LEASES], 0);
        world_free(&world);
}

/* Each block is larger than all before, so that none of these serves it. */
TEST(no_more_is_kept_than_the_limit)
{
        struct world world = world_new(16 * MIB);
        struct client *client = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, 20 * MIB);
        (void)keep(&world, client, 2 * MIB);
        (void)keep(&world, client, 4 * MIB);
        (void)keep(&world, client, 6 * MIB);
        (void)keep(&world, client, 8 * MIB);
        ask_to_keep(&world, client, 1, 10 * MIB, 0);
        ck_assert_uint_eq(expect_limit(&world, client, 1).used, 20 * MIB);
        world_free(&world);
}

/* Idle leases that are revoked would be charged as before: that would make no room. */
TEST(what_is_idle_is_not_taken_for_a_limit)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held;

        set_limit(&world, LIMIT_OF_TENANT, 20 * MIB);
        held = hold_to_keep(&world, a, 16 * MIB);
        mark_idle(&world, a, held.lease);
        ask_to_keep(&world, a, 1, 8 * MIB, 0);
        (void)expect_limit(&world, a, 1);
        ask_to_keep(&world, b, 1, 8 * MIB, 0);
        (void)expect_limit(&world, b, 1);
        ck_assert(!was_revoked(&world, a, held.lease));
        ck_assert_uint_eq(charged(a), 16 * MIB);
        world_free(&world);
}

TEST(its_keeper_has_it_again_at_the_limit)
{
        struct world world = world_new(16 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease;
        struct held held;

        set_limit(&world, LIMIT_OF_CLIENT, 8 * MIB);
        set_limit(&world, LIMIT_OF_TENANT, 8 * MIB);
        held = keep(&world, client, 8 * MIB);
        ask_to_keep(&world, client, 1, 8 * MIB, 0);
        lease = expect_grant(&world, client, 1);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        ck_assert_uint_eq(charged(client), 8 * MIB);
        ck_assert_uint_eq(client_kept(client)->n[LIMIT_PINNED_BYTES], 0);
        /* The mapping is both leases': it is not unmapped before both are. */
        unmap(&world, client, held.id);
        give_back(&world, client, lease, RETURN_MAPPED);
        ck_assert_uint_eq(charged(client), 8 * MIB);
        /* Also below what it has, and behind one that waits. */
        set_limit(&world, LIMIT_OF_CLIENT, 6 * MIB);
        ask_to_keep(&world, client, 2, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask_to_keep(&world, client, 3, 8 * MIB, 0);
        lease = expect_grant(&world, client, 3);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        world_free(&world);
}

TEST(it_is_charged_to_another_of_the_tenant_while_that_one_leases_it)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct lease *lease;
        struct held held;

        set_limit(&world, LIMIT_OF_TENANT, 8 * MIB);
        held = keep(&world, a, 8 * MIB);
        ask_to_keep(&world, b, 1, 8 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        ck_assert_uint_eq(charged(a), 0);
        ck_assert_uint_eq(charged(b), 8 * MIB);
        /* Both map it now: the one that had it last is charged, then the other. */
        give_back(&world, b, lease, RETURN_MAPPED);
        ck_assert_uint_eq(charged(a), 0);
        ck_assert_uint_eq(charged(b), 8 * MIB);
        unmap(&world, b, lease_id(lease));
        ck_assert_uint_eq(charged(a), 8 * MIB);
        ck_assert_uint_eq(charged(b), 0);
        ck_assert_uint_eq(client_tenant_usage(b)->n[LIMIT_PINNED_BYTES], 8 * MIB);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(charged(a), 0);
        world_free(&world);
}

TEST(idle_it_goes_to_another_at_the_tenants_limit)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct lease *lease;
        struct held held;

        set_limit(&world, LIMIT_OF_TENANT, 8 * MIB);
        held = hold_to_keep(&world, a, 8 * MIB);
        mark_idle(&world, a, held.lease);
        ask_to_keep(&world, b, 1, 8 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        ck_assert(was_revoked(&world, a, held.lease));
        ck_assert_uint_eq(charged(a), 0);
        ck_assert_uint_eq(charged(b), 8 * MIB);
        give_back(&world, b, lease, RETURN_UNMAPPED);
        /* By way of another it is no cheaper. */
        ck_assert_uint_eq(charged(a), 8 * MIB);
        ask_to_keep(&world, b, 2, 4 * MIB, 0);
        (void)expect_limit(&world, b, 2);
        world_free(&world);
}

TEST(a_clients_own_limit_keeps_it_from_what_another_keeps)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held;

        set_limit(&world, LIMIT_OF_CLIENT, 10 * MIB);
        (void)hold_to_keep(&world, b, 4 * MIB);
        held = keep(&world, a, 8 * MIB);
        ask_to_keep(&world, b, 1, 8 * MIB, 0);
        ck_assert_int_eq(expect_limit(&world, b, 1).scope, LIMIT_OF_CLIENT);
        ck_assert_uint_eq(charged(a), 8 * MIB);
        unmap(&world, a, held.id);
        world_free(&world);
}

TEST(who_waits_for_the_limit_has_it_when_it_is_unmapped)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held;

        set_limit(&world, LIMIT_OF_TENANT, 16 * MIB);
        held = keep(&world, a, 12 * MIB);
        ask_to_keep(&world, b, 1, 8 * MIB, 5000);
        expect_idle(&world);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(take(&world, ACTION_CREATE).serial, 1);
        ck_assert_uint_eq(charged(b), 8 * MIB);
        world_free(&world);
}

TEST(it_is_charged_until_its_keepers_end)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);

        (void)keep(&world, a, 12 * MIB);
        ck_assert(!policy_client_eof(world.policy, a, 0));
        policy_check(world.policy);
        ck_assert_uint_eq(charged(a), 12 * MIB);
        ck_assert(policy_client_dead(world.policy, a, 0));
        policy_check(world.policy);
        ck_assert_uint_eq(client_tenant_usage(b)->n[LIMIT_PINNED_BYTES], 0);
        world_free(&world);
}

/* What the tenant is charged for already is no more than before, though the limit leaves no room for a block of
 * that size; one that nobody is charged for is. */
TEST(a_larger_one_that_is_kept_serves_beside_the_limit)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held kept, loose;

        kept = hold_to_keep(&world, a, 18 * MIB);
        loose = hold_to_keep(&world, b, 18 * MIB);
        give_back(&world, a, kept.lease, RETURN_MAPPED);
        give_back(&world, b, loose.lease, RETURN_UNMAPPED);
        set_limit(&world, LIMIT_OF_TENANT, 34 * MIB);
        ask_to_keep(&world, b, 1, 16 * MIB, 0);
        ck_assert_ptr_eq(lease_block(expect_grant(&world, b, 1)), kept.block);
        world_free(&world);
}

/* Whatever else is cached there that nobody is charged for, and so is what is idle. */
TEST(it_is_found_behind_many_that_nobody_keeps)
{
        struct world world = world_new(16 * MIB);
        struct client *k = join(&world, 1), *d = join(&world, 1), *b = join(&world, 1), *many[3];
        struct held kept, idle = {.id = 0}, held[270];

        ck_assert_int_eq(policy_set_pool_max(world.policy, PINNED, 1024 * MIB, world.now_ns), 0);
        kept = hold_to_keep(&world, k, 2 * MIB);
        for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
                many[i] = join(&world, 1);
        for (unsigned i = 0; i <= ARRAY_SIZE(held); i++) {
                struct client *client = i < ARRAY_SIZE(held) ? many[i % 3] : d;
                struct policy_ask ask = {.pool = PINNED, .serial = 8, .n_bytes = 2 * MIB};
                struct held *one = i < ARRAY_SIZE(held) ? &held[i] : &idle;

                ask_with(&world, client, &ask);
                created(&world, take(&world, ACTION_CREATE).block, 0);
                one->lease = expect_grant(&world, client, 8);
        }
        give_back(&world, k, kept.lease, RETURN_MAPPED);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                give_back(&world, many[i % 3], held[i].lease, RETURN_UNMAPPED);
        mark_idle(&world, d, idle.lease);
        set_limit(&world, LIMIT_OF_TENANT, 4 * MIB);
        ck_assert_uint_eq(client_tenant_usage(b)->n[LIMIT_PINNED_BYTES], 4 * MIB);
        ask_to_keep(&world, b, 1, 2 * MIB, 0);
        (void)expect_grant(&world, b, 1);
        world_free(&world);
}

/* Who does not say that it keeps them mapped is charged for them all the same. */
TEST(no_more_is_mapped_than_the_limit_whatever_is_said)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        uint64_t n_mapped = 0;

        set_limit(&world, LIMIT_OF_CLIENT, 16 * MIB);
        for (uint64_t n_bytes = 2 * MIB; n_bytes <= 14 * MIB; n_bytes += 2 * MIB) {
                struct policy_ask request = {
                        .pool = PINNED, .serial = 5, .n_bytes = n_bytes, .n_most_bytes = n_bytes};
                struct action action;

                ask_with(&world, a, &request);
                action = next_action(&world);
                if (action.kind != ACTION_CREATE)
                        break;
                created(&world, action.block, 0);
                give_back(&world, a, expect_grant(&world, a, 5), RETURN_MAPPED);
                n_mapped += n_bytes;
        }
        ck_assert_uint_eq(n_mapped, 12 * MIB);
        world_free(&world);
}

static struct held cache_pinned(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct policy_ask request = {.pool = PINNED, .serial = 5, .n_bytes = n_bytes};
        struct held held;

        ask_with(world, client, &request);
        held.block = take(world, ACTION_CREATE).block;
        created(world, held.block, 0);
        held.lease = expect_grant(world, client, 5);
        held.id = lease_id(held.lease);
        give_back(world, client, held.lease, RETURN_MAPPED);
        return held;
}

/* As one that is to be unmapped at once is: it is had again beside the limit, and another when it is. */
TEST(what_is_about_to_be_unmapped_is_charged_until_then)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        struct lease *lease;
        struct held held;

        set_limit(&world, LIMIT_OF_CLIENT, 8 * MIB);
        held = cache_pinned(&world, a, 8 * MIB);
        ck_assert_uint_eq(client_charged(a, PINNED), 8 * MIB);
        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        unmap(&world, a, held.id);
        give_back(&world, a, lease, RETURN_MAPPED);
        again.serial = 2;
        again.n_bytes = 4 * MIB;
        again.deadline_ns = 5000;
        ask_with(&world, a, &again);
        expect_idle(&world);
        unmap(&world, a, lease_id(lease));
        ck_assert_uint_eq(take(&world, ACTION_CREATE).serial, 2);
        ck_assert_uint_eq(client_charged(a, PINNED), 4 * MIB);
        world_free(&world);
}

/* It was not asked to unmap it yet; but what it gave back before it has not unmapped either. */
TEST(revoked_block_is_charged_when_it_is_released)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct lease *lease, *other;
        struct held held = cache_pinned(&world, a, 8 * MIB);

        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        unmap(&world, a, held.id);
        mark_idle(&world, a, lease);
        again.known_will_do = false;
        ask_with(&world, b, &again);
        other = expect_grant(&world, b, 1);
        give_back(&world, b, other, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(a, PINNED) + client_charged(b, PINNED), 0);
        ck_assert_int_eq(policy_set_pool_max(world.policy, PINNED, 2 * MIB, world.now_ns), 0);
        expect_release(&world, held.block);
        ck_assert_uint_eq(client_charged(a, PINNED), 8 * MIB);
        world_free(&world);
}

/* The idle lease on it is not the only one: to revoke that is no relief. */
TEST(what_would_be_charged_still_is_not_taken_for_a_limit)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        struct lease *lease;

        set_limit(&world, LIMIT_OF_CLIENT, 8 * MIB);
        (void)cache_pinned(&world, a, 8 * MIB);
        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        mark_idle(&world, a, lease);
        again.serial = 2;
        again.n_bytes = 4 * MIB;
        ask_with(&world, a, &again);
        expect_refusal(&world, a, 2, GPUMEM_E_LIMIT);
        ck_assert(!was_revoked(&world, a, lease));
        world_free(&world);
}

TESTS_MAIN("policy: what is kept mapped")
