/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are returned but stay mapped, with or without the client's announcement: which client is
 * charged. */
#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

#define PINNED 1

static struct policy_ask to_keep(uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns)
{
        return (struct policy_ask){.pool = PINNED,
                                   .serial = serial,
                                   .n_bytes = n_bytes,
                                   .keeps_mapped = true,
                                   .deadline_ns = deadline_ns};
}

static void ask_to_keep(struct client *client, uint32_t serial, uint64_t n_bytes,
                        uint64_t deadline_ns)
{
        const struct policy_ask request = to_keep(serial, n_bytes, deadline_ns);

        ask_with(client, &request);
}

static struct held hold_to_keep(struct client *client, uint64_t n_bytes)
{
        const struct policy_ask request = to_keep(99, n_bytes, 0);

        return hold_with(client, &request);
}

static uint64_t charged(const struct client *client)
{
        ck_assert_uint_eq(client_usage(client)->n[LIMIT_PINNED_BYTES],
                          client_charged(client, PINNED));
        return client_charged(client, PINNED);
}

POLICY_TEST(it_is_charged_until_it_is_unmapped, 16 * MIB)
{
        struct client *client = join(1);
        struct held held = hold_to_keep(client, 8 * MIB);

        give_back(client, held.lease, RETURN_MAPPED);
        ck_assert_uint_eq(charged(client), 8 * MIB);
        ck_assert_uint_eq(client_kept(client)->n[LIMIT_PINNED_BYTES], 8 * MIB);
        ck_assert_uint_eq(client_tenant_kept(client)->n[LIMIT_LEASES], 1);
        unmap(client, held.id);
        ck_assert_uint_eq(charged(client), 0);
        ck_assert_uint_eq(client_kept(client)->n[LIMIT_PINNED_BYTES], 0);
        ck_assert_uint_eq(client_tenant_usage(client)->n[LIMIT_LEASES], 0);
}

/* A block for which the tenant is charged already adds nothing to its charge, though the limit leaves no
 * room for a block of that size. A block that no client is charged for does. */
POLICY_TEST(a_larger_one_that_is_kept_serves_beside_the_limit, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held kept, loose;

        kept = hold_to_keep(a, 18 * MIB);
        loose = hold_to_keep(b, 18 * MIB);
        give_back(a, kept.lease, RETURN_MAPPED);
        give_back(b, loose.lease, RETURN_UNMAPPED);
        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_PINNED_BYTES, 34 * MIB);
        ask_to_keep(b, 1, 16 * MIB, 0);
        ck_assert_ptr_eq(lease_block(expect_grant(b, 1)), kept.block);
}

/* Other cached blocks there have no charge, and neither have idle ones. */
POLICY_TEST(it_is_found_behind_many_that_nobody_keeps, 16 * MIB)
{
        struct client *k = join(1), *d = join(1), *b = join(1), *many[3];
        struct held kept, idle = {.id = 0}, held[270];

        ck_assert_int_eq(policy_set_pool_max(world.policy, PINNED, 1024 * MIB, world.now_ns), 0);
        kept = hold_to_keep(k, 2 * MIB);
        for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
                many[i] = join(1);
        for (unsigned i = 0; i <= ARRAY_SIZE(held); i++) {
                struct client *client = i < ARRAY_SIZE(held) ? many[i % 3] : d;
                struct policy_ask ask = {.pool = PINNED, .serial = 8, .n_bytes = 2 * MIB};
                struct held *one = i < ARRAY_SIZE(held) ? &held[i] : &idle;

                ask_with(client, &ask);
                one->lease = expect_made(client, 8);
        }
        give_back(k, kept.lease, RETURN_MAPPED);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                give_back(many[i % 3], held[i].lease, RETURN_UNMAPPED);
        mark_idle(d, idle.lease);
        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_PINNED_BYTES, 4 * MIB);
        ck_assert_uint_eq(client_tenant_usage(b)->n[LIMIT_PINNED_BYTES], 4 * MIB);
        ask_to_keep(b, 1, 2 * MIB, 0);
        (void)expect_grant(b, 1);
}

/* Each step that touches the block goes through all of its leases. */
POLICY_TEST(a_block_in_too_many_returned_leases_is_not_cached, 16 * MIB)
{
        const struct policy_ask known = {.serial = 1, .n_bytes = 2 * MIB, .known_will_do = true};
        struct client *client = join(1);
        struct held held = hold_with(client, &known);
        unsigned n_leases = 1;

        for (; n_leases < WORLD_N_SLOTS && stats().cached == 0; n_leases++) {
                give_back(client, held.lease, RETURN_MAPPED);
                if (!stats().cached)
                        break;
                ask_with(client, &known);
                held.lease = expect_grant(client, 1);
                ck_assert_ptr_eq(lease_block(held.lease), held.block);
        }
        ck_assert_uint_gt(n_leases, 16);
        ck_assert_uint_lt(n_leases, WORLD_N_SLOTS);
        expect_totals(0, 0, 2 * MIB);
}

TESTS_MAIN("policy: what is kept mapped")
