/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in several leases: who is charged, which one releases, who may attach; and no memory for it. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/report/listing.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/policy_world.h"

static struct held hold_shareable(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct policy_ask request = {
                .n_bytes = n_bytes, .properties = POLICY_SHAREABLE, .deadline_ns = 0};
        struct held held;

        ask_with(world, client, &request);
        held.block = take(world, ACTION_CREATE).block;
        created(world, held.block, 0);
        held.lease = expect_grant(world, client, 0);
        held.id = lease_id(held.lease);
        return held;
}

static struct policy_share terms(uint8_t name, uint32_t granted_uid)
{
        return (struct policy_share){
                .token = {{name}}, .n_bytes = 1000, .granted_uid = granted_uid};
}

static int share(struct world *world, struct client *client, const struct held *held,
                 const struct policy_share *share)
{
        int r = policy_share(world->policy, client, held->id, share);

        policy_check(world->policy);
        return r;
}

static int attach(struct world *world, struct client *client, const struct policy_share *share,
                  struct lease **ret_lease)
{
        uint64_t n_bytes = 0;
        int r = policy_attach(world->policy, client, &share->token, ret_lease, &n_bytes);

        policy_check(world->policy);
        ck_assert_uint_eq(n_bytes, r ? 0 : 1000);
        return r;
}

static struct lease *must_attach(struct world *world, struct client *client,
                                 const struct policy_share *share)
{
        struct lease *lease;

        ck_assert_int_eq(attach(world, client, share, &lease), 0);
        return lease;
}

static int unshare(struct world *world, struct client *client, const struct policy_share *share)
{
        int r = policy_unshare(world->policy, client, &share->token);

        policy_check(world->policy);
        return r;
}

static void see_block(const struct block_listing *block, void *n)
{
        *(uint32_t *)n = block->n_charge_transfers;
}

/* Of the only block in the first pool. */
static uint32_t n_transfers(const struct world *world)
{
        uint32_t n = 0;

        policy_list_blocks(world->policy, 0, see_block, &n);
        return n;
}

TEST(the_charge_is_the_oldest_holders)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *of_b, *of_c;

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        of_b = must_attach(&world, b, &token);
        of_c = must_attach(&world, c, &token);
        ck_assert_ptr_eq(lease_block(of_c), held.block);
        ck_assert_uint_eq(stats(&world).n_leases, 3);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(n_transfers(&world), 1);
        expect_totals(&world, 4 * MIB, 0, 0);
        /* The youngest goes: nothing changes for the others. */
        give_back(&world, c, of_c, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(n_transfers(&world), 1);
        expect_idle(&world);
        give_back(&world, b, of_b, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        ck_assert_uint_eq(stats(&world).charged, 0);
        world_free(&world);
}

TEST(an_owner_that_still_maps_it_is_charged_in_the_end)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *of_b;

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        of_b = must_attach(&world, b, &token);
        give_back(&world, a, held.lease, RETURN_MAPPED);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        give_back(&world, b, of_b, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        unmap(&world, a, held.id);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TEST(a_holders_end_releases_its_own_lease_only)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        (void)must_attach(&world, b, &token);
        ck_assert(!policy_client_eof(world.policy, a, 0));
        policy_check(world.policy);
        expect_idle(&world);
        expect_totals(&world, 4 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert(policy_client_dead(world.policy, a, 0));
        /* The token is the block's, not the owner's. */
        (void)must_attach(&world, c, &token);
        ck_assert(!policy_client_dead(world.policy, b, 0));
        ck_assert(policy_client_eof(world.policy, b, 0));
        ck_assert_uint_eq(client_charged(c, 0), 4 * MIB);
        expect_idle(&world);
        ck_assert(!policy_client_eof(world.policy, c, 0));
        policy_check(world.policy);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert(policy_client_dead(world.policy, c, 0));
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TEST(what_cannot_be_shared_is_told_apart)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held plain = hold(&world, a, 4 * MIB);
        struct held held = hold_shareable(&world, a, 4 * MIB), attached = {.id = 0};
        struct policy_share token = terms(1, POLICY_NO_UID), other = terms(2, POLICY_NO_UID);

        ck_assert_int_eq(share(&world, a, &plain, &token), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_int_eq(share(&world, b, &held, &token), GPUMEM_E_NO_LEASE);
        token.n_bytes = 4 * MIB + 1;
        ck_assert_int_eq(share(&world, a, &held, &token), GPUMEM_E_BAD_REQUEST);
        token.n_bytes = 0;
        ck_assert_int_eq(share(&world, a, &held, &token), GPUMEM_E_BAD_REQUEST);
        token.n_bytes = 1000;
        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        ck_assert_int_eq(share(&world, a, &held, &token), -EEXIST);
        attached.id = lease_id(must_attach(&world, b, &token));
        ck_assert_int_eq(share(&world, b, &attached, &other), GPUMEM_E_NOT_SHAREABLE);
        for (uint8_t name = 2; name < 2 + 63; name++) {
                other = terms(name, POLICY_NO_UID);
                ck_assert_int_eq(share(&world, a, &held, &other), 0);
        }
        other = terms(99, POLICY_NO_UID);
        ck_assert_int_eq(share(&world, a, &held, &other), GPUMEM_E_TOO_MANY);
        give_back(&world, a, held.lease, RETURN_MAPPED);
        ck_assert_int_eq(share(&world, a, &held, &other), GPUMEM_E_NO_LEASE);
        world_free(&world);
}

TEST(a_token_is_for_its_tenant_and_one_that_is_granted)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct client *d = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share own = terms(1, POLICY_NO_UID), granted = terms(2, 2);
        struct policy_share none = terms(3, POLICY_NO_UID);
        struct lease *lease;

        ck_assert_int_eq(share(&world, a, &held, &own), 0);
        ck_assert_int_eq(share(&world, a, &held, &granted), 0);
        ck_assert_int_eq(attach(&world, b, &none, &lease), GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(attach(&world, b, &own, &lease), GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(attach(&world, c, &granted, &lease), GPUMEM_E_NO_TOKEN);
        lease = must_attach(&world, b, &granted);
        (void)must_attach(&world, d, &granted);
        ck_assert_int_eq(unshare(&world, b, &granted), GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(unshare(&world, d, &granted), 0);
        ck_assert_int_eq(unshare(&world, d, &granted), GPUMEM_E_NO_TOKEN);
        ck_assert(!policy_client_eof(world.policy, d, 0));
        ck_assert(policy_client_dead(world.policy, d, 0));
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        /* The other tenant has it now, and is charged for it. */
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, b, lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        ck_assert_int_eq(attach(&world, d = join(&world, 1), &own, &lease), GPUMEM_E_NO_TOKEN);
        world_free(&world);
}

TEST(one_client_may_hold_it_often_but_not_endlessly)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *lease;

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        for (unsigned i = 1; i < WORLD_N_SLOTS; i++)
                ck_assert_uint_eq(lease_slot(must_attach(&world, a, &token)), i);
        ck_assert_int_eq(attach(&world, a, &token, &lease), GPUMEM_E_TOO_MANY);
        ck_assert_uint_eq(stats(&world).n_leases, WORLD_N_SLOTS);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        ck_assert(!policy_client_eof(world.policy, a, 0));
        policy_check(world.policy);
        expect_release(&world, held.block);
        ck_assert(policy_client_dead(world.policy, a, 0));
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

static void set_limit(struct world *world, enum limit_scope scope, uint32_t uid,
                      enum limit_kind kind, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world->policy, scope, uid, kind, max, 0), 0);
        policy_check(world->policy);
}

/* Who may be charged for it in the end must be able to bear that in the beginning; but what a tenant
 * is charged for is not charged to it again. */
TEST(limits_are_for_those_who_attach_too)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 2);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, 2);
        struct lease *of_c, *lease;

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        (void)hold(&world, c, 2 * MIB);
        set_limit(&world, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, 4 * MIB);
        set_limit(&world, LIMIT_OF_TENANT, 2, LIMIT_DEVICE_BYTES, 5 * MIB);
        (void)must_attach(&world, b, &token);
        ck_assert_int_eq(attach(&world, c, &token, &lease), GPUMEM_E_LIMIT);
        set_limit(&world, LIMIT_OF_TENANT, 2, LIMIT_DEVICE_BYTES, 6 * MIB);
        of_c = must_attach(&world, c, &token);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 1);
        ck_assert_int_eq(attach(&world, c, &token, &lease), GPUMEM_E_LIMIT);
        (void)must_attach(&world, a, &token);
        ck_assert_int_eq(
                policy_client_eof(world.policy, a, 0) + policy_client_eof(world.policy, b, 0), 0);
        policy_check(world.policy);
        /* Once it has come to that, it is charged whatever the limit has become. */
        ck_assert_uint_eq(client_charged(c, 0), 6 * MIB);
        give_back(&world, c, of_c, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(c, 0), 2 * MIB);
        world_free(&world);
}

/* Whose charge it all becomes when the others leave. */
TEST(limits_are_for_all_that_is_attached)
{
        struct world world = world_new(64 * MIB);
        struct client *owner = join(&world, 1), *c = join(&world, 1), *d = join(&world, 2);
        struct held held[3];
        struct policy_share tokens[3];
        struct lease *lease;

        for (unsigned i = 0; i < 3; i++) {
                held[i] = hold_shareable(&world, owner, 4 * MIB);
                tokens[i] = terms(i + 1, 2);
                ck_assert_int_eq(share(&world, owner, &held[i], &tokens[i]), 0);
        }
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 8 * MIB);
        (void)must_attach(&world, c, &tokens[0]);
        (void)must_attach(&world, c, &tokens[1]);
        (void)must_attach(&world, c, &tokens[1]);
        ck_assert_int_eq(attach(&world, c, &tokens[2], &lease), GPUMEM_E_LIMIT);
        for (unsigned i = 0; i < 2; i++)
                give_back(&world, owner, held[i].lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(c, 0), 8 * MIB);
        ck_assert_int_eq(attach(&world, c, &tokens[2], &lease), GPUMEM_E_LIMIT);
        set_limit(&world, LIMIT_OF_TENANT, 2, LIMIT_DEVICE_BYTES, 4 * MIB);
        lease = must_attach(&world, d, &tokens[2]);
        ck_assert_int_eq(attach(&world, join(&world, 2), &tokens[0], &lease), GPUMEM_E_LIMIT);
        (void)must_attach(&world, join(&world, 2), &tokens[2]);
        world_free(&world);
}

TEST(a_shared_block_makes_no_room_for_others)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *of_b;

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        of_b = must_attach(&world, b, &token);
        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        give_back(&world, a, held.lease, RETURN_UNMAPPED);
        expect_idle(&world);
        give_back(&world, b, of_b, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        ck_assert_ptr_eq(take(&world, ACTION_CREATE).client, a);
        world_free(&world);
}

/* For each call that gets memory: it fails, and nothing has changed. */
TEST(every_failure_leaves_things_as_they_were)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *lease = NULL;
        uint64_t n_bytes;
        int r, n = 0;

        do {
                n_until_failure = n++;
                r = policy_share(world.policy, a, held.id, &token);
                n_until_failure = -1;
                ck_assert(r == 0 || r == -ENOMEM);
                policy_check(world.policy);
        } while (r);
        ck_assert_int_ge(n, 3);
        n = 0;
        do {
                n_until_failure = n++;
                r = policy_attach(world.policy, b, &token.token, &lease, &n_bytes);
                n_until_failure = -1;
                ck_assert(r == -ENOMEM ? !lease : r == 0);
                policy_check(world.policy);
        } while (r);
        ck_assert_int_ge(n, 3);
        ck_assert_uint_eq(lease_slot(lease), 0);
        world_free(&world);
}

TEST(a_policy_that_ends_forgets_its_tokens)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold_shareable(&world, a, 4 * MIB);
        struct policy_share token = terms(1, 2);

        ck_assert_int_eq(share(&world, a, &held, &token), 0);
        (void)must_attach(&world, b, &token);
        policy_shut_down(world.policy);
        expect_idle(&world);
        (void)must_attach(&world, b, &token);
        world_free(&world);
}

TESTS_MAIN("policy: share")
