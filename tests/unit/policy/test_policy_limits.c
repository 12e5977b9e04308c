/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of clients and tenants, and of a pool in use: which requests are refused, which wait, and which
 * need not. */
#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

#define FOR_EVER UINT64_MAX

static void ask_pool(struct client *client, uint32_t pool, uint32_t serial, uint64_t n_bytes,
                     uint64_t deadline_ns)
{
        struct policy_ask request = {
                .pool = pool, .serial = serial, .n_bytes = n_bytes, .deadline_ns = deadline_ns};

        ask_with(client, &request);
}

POLICY_TEST(kinds_are_counted_apart_and_leases_together, 100 * MIB)
{
        struct client *client = join(1);
        struct block *block;

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_PINNED_BYTES, 6 * MIB);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 2);
        (void)hold(client, 4 * MIB);
        ask_pool(client, 1, 1, 4 * MIB, 0);
        block = expect_create(client, 1);
        created(block, 0);
        (void)expect_grant(client, 1);
        ask_pool(client, 1, 2, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(client, 2).kind, LIMIT_LEASES);
        ask_pool(client, 1, 3, 4 * MIB, 0);
        ck_assert_int_eq(expect_limit(client, 3).kind, LIMIT_PINNED_BYTES);
        ck_assert_uint_eq(client_usage(client)->n[LIMIT_LEASES], 2);
}

/* The charge of that holder, not that of the whole tenant or of this client alone. */
POLICY_TEST(a_hopeless_refusal_says_what_its_holder_is_charged, 100 * MIB)
{
        struct client *client = join(1);
        struct limit_hit hit;

        (void)hold(client, 2 * MIB);
        (void)hold(join(1), 4 * MIB);
        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        ask(client, 1, 12 * MIB, FOR_EVER);
        hit = expect_limit(client, 1);
        ck_assert_int_eq(hit.scope, LIMIT_OF_TENANT);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        ask(client, 2, 12 * MIB, FOR_EVER);
        hit = expect_limit(client, 2);
        ck_assert_int_eq(hit.scope, LIMIT_OF_CLIENT);
        ck_assert_uint_eq(hit.used, 2 * MIB);
}

POLICY_TEST(the_deadline_ends_the_wait_with_the_reason, 100 * MIB)
{
        struct client *client = join(1);

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        (void)hold(client, 4 * MIB);
        expect_wait(client, 1, 2 * MIB, world.now_ns + 10);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + 10);
        later(10);
        ck_assert_uint_eq(expect_limit(client, 1).used, 4 * MIB);
}

POLICY_TEST(small_requests_do_not_starve_a_large_one, 100 * MIB)
{
        struct client *one = join(1), *two = join(1);
        struct held held[2];
        struct limit_hit hit;

        set_limit(LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, 8 * MIB);
        held[0] = hold(one, 4 * MIB);
        held[1] = hold(one, 2 * MIB);
        ask(one, 1, 8 * MIB, FOR_EVER);
        /* It would fit, but another client of the tenant asked before. */
        ask(two, 2, 2 * MIB, FOR_EVER);
        ask(two, 3, 2 * MIB, 0);
        hit = expect_limit(two, 3);
        ck_assert_int_eq(hit.why, LIMIT_IS_WAITED_FOR);
        ck_assert_int_eq(hit.scope, LIMIT_OF_TENANT);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        give_back(one, held[0].lease, RETURN_UNMAPPED);
        expect_idle();
        give_back(one, held[1].lease, RETURN_UNMAPPED);
        (void)expect_create(one, 1);
        expect_idle();
}

POLICY_TEST(a_clients_wait_is_not_its_tenants, 100 * MIB)
{
        struct client *one = join(1), *two = join(1);

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 8 * MIB);
        (void)hold(one, 4 * MIB);
        ask(one, 1, 8 * MIB, FOR_EVER);
        ask(one, 2, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(one, 2).scope, LIMIT_OF_CLIENT);
        expect_new(two, 3, 2 * MIB, 0);
}

POLICY_TEST(a_cached_block_too_large_for_the_limit_is_not_taken, 100 * MIB)
{
        struct client *client = join(1);

        (void)cache(client, 18 * MIB, RETURN_UNMAPPED);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        ask(client, 1, 16 * MIB, 0);
        ck_assert_uint_eq(block_bytes(expect_create(client, 1)), 16 * MIB);
}

POLICY_TEST(a_new_table_replaces_the_old, 100 * MIB)
{
        struct client *client = join(1);
        struct limits *table;

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 2 * MIB);
        ck_assert_int_eq(limits_new(&table), 0);
        ck_assert_int_eq(limits_set_uid(table, 1, LIMIT_DEVICE_BYTES, 6 * MIB), 0);
        policy_set_limits(world.policy, table, world.now_ns);
        (void)hold(client, 6 * MIB);
        ask(client, 1, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(client, 1).scope, LIMIT_OF_TENANT);
        policy_set_limits(world.policy, NULL, world.now_ns);
        (void)hold(client, 20 * MIB);
        ck_assert_ptr_null(policy_limits(world.policy));
        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_CLIENT, 1, LIMIT_LEASES, 1, 0),
                         GPUMEM_E_BAD_REQUEST);
}

static void set_pool_max(uint64_t max_bytes)
{
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, max_bytes, world.now_ns), 0);
        policy_check(world.policy);
}

POLICY_TEST(a_lowered_pool_takes_nothing_and_gives_nothing, 100 * MIB)
{
        struct client *client = join(1);
        struct held held[2];

        held[0] = hold(client, 20 * MIB);
        held[1] = hold(client, 10 * MIB);
        set_pool_max(16 * MIB);
        expect_totals(30 * MIB, 0, 0);
        expect_refused(client, 1, 10 * MIB, 0, GPUMEM_E_REFUSED);
        expect_refused(client, 2, 18 * MIB, FOR_EVER, GPUMEM_E_TOO_LARGE);
        /* Above its limit the pool caches nothing. */
        give_back(client, held[0].lease, RETURN_UNMAPPED);
        expect_release(held[0].block);
        expect_new(client, 3, 6 * MIB, 0);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 2, MIB, 0), GPUMEM_E_NO_POOL);
}

/* A pool of 30 MiB that has 40: 20 are released but still mapped. Two requests wait, the second until now;
 * then the other 20 can be released. */
static struct block *owe(struct client *asker, uint64_t n_first_bytes, uint64_t n_second_bytes)
{
        struct client *owner = join(1);
        struct held lingering = hold(owner, 20 * MIB), held = hold(owner, 20 * MIB);

        give_back(owner, lingering.lease, RETURN_MAPPED);
        set_pool_max(20 * MIB);
        expect_release(lingering.block);
        set_pool_max(30 * MIB);
        ask(asker, 1, n_first_bytes, FOR_EVER);
        expect_wait(asker, 2, n_second_bytes, world.now_ns + 1000);
        world.now_ns += 1000;
        give_back(owner, held.lease, RETURN_UNMAPPED);
        return held.block;
}

/* Of the 20 MiB, 10 are for the excess over the limit; the rest is enough for both. */
POLICY_TEST(what_is_owed_is_paid_once, 100 * MIB)
{
        struct client *asker = join(2);
        struct block *block = owe(asker, 8 * MIB, 2 * MIB);
        struct action action = take(ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        expect_idle();
        released(block);
        (void)expect_create(asker, 1);
        (void)expect_create(asker, 2);
        expect_idle();
}

POLICY_TEST(what_is_owed_serves_nobody, 100 * MIB)
{
        struct client *asker = join(2);
        struct block *block = owe(asker, 8 * MIB, 4 * MIB);
        struct action action = take(ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        expect_refusal(asker, 2, GPUMEM_E_TIMED_OUT);
        released(block);
        (void)expect_create(asker, 1);
        expect_idle();
}

TESTS_MAIN("policy: limits")
