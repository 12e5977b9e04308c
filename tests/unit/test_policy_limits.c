/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of clients and tenants, and of a pool while it is used: who is refused, who waits, and who need not. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

#define FOR_EVER UINT64_MAX

static void set_limit(struct world *world, enum limit_scope scope, uint32_t uid,
                      enum limit_kind kind, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world->policy, scope, uid, kind, max, world->now_ns), 0);
        policy_check(world->policy);
}

static void ask_pool(struct world *world, struct client *client, uint32_t pool, uint32_t serial,
                     uint64_t n_bytes, uint64_t deadline_ns)
{
        struct policy_ask request = {
                .pool = pool, .serial = serial, .n_bytes = n_bytes, .deadline_ns = deadline_ns};

        ask_with(world, client, &request);
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

static struct block *expect_create(struct world *world, const struct client *client,
                                   uint32_t serial)
{
        struct action action = take(world, ACTION_CREATE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        return action.block;
}

TEST(a_client_may_have_just_its_limit)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct limit_hit hit;

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        (void)hold(&world, client, 6 * MIB);
        ask(&world, client, 1, 6 * MIB, 0);
        hit = expect_limit(&world, client, 1);
        ck_assert_int_eq(hit.scope, LIMIT_OF_CLIENT);
        ck_assert_int_eq(hit.kind, LIMIT_DEVICE_BYTES);
        ck_assert_int_eq(hit.why, LIMIT_WOULD_BE_PASSED);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        ck_assert_uint_eq(hit.max, 10 * MIB);
        (void)hold(&world, client, 4 * MIB);
        /* Another client of the tenant has a limit of its own. */
        (void)hold(&world, join(&world, 1), 10 * MIB);
        world_free(&world);
}

TEST(a_tenants_clients_share_its_limit)
{
        struct world world = world_new(100 * MIB);
        struct client *one = join(&world, 1), *two = join(&world, 1), *other = join(&world, 2);
        struct limit_hit hit;

        set_limit(&world, LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        (void)hold(&world, one, 6 * MIB);
        ask(&world, two, 1, 6 * MIB, 0);
        hit = expect_limit(&world, two, 1);
        ck_assert_int_eq(hit.scope, LIMIT_OF_TENANT);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        (void)hold(&world, other, 10 * MIB);
        world_free(&world);
}

TEST(a_named_tenant_has_its_own)
{
        struct world world = world_new(100 * MIB);
        struct client *named = join(&world, 1), *other = join(&world, 2);

        set_limit(&world, LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        set_limit(&world, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, 20 * MIB);
        (void)hold(&world, named, 20 * MIB);
        ask(&world, other, 1, 12 * MIB, 0);
        (void)expect_limit(&world, other, 1);
        set_limit(&world, LIMIT_OF_TENANT, 2, LIMIT_DEVICE_BYTES, LIMIT_NONE);
        (void)hold(&world, other, 12 * MIB);
        /* Taken back: what it has stays. */
        set_limit(&world, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, LIMIT_INHERIT);
        ask(&world, named, 2, 2 * MIB, 0);
        ck_assert_uint_eq(expect_limit(&world, named, 2).max, 10 * MIB);
        ck_assert_uint_eq(client_usage(named)->n[LIMIT_DEVICE_BYTES], 20 * MIB);
        world_free(&world);
}

TEST(kinds_are_counted_apart_and_leases_together)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct block *block;

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_PINNED_BYTES, 6 * MIB);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 2);
        (void)hold(&world, client, 4 * MIB);
        ask_pool(&world, client, 1, 1, 4 * MIB, 0);
        block = expect_create(&world, client, 1);
        created(&world, block, 0);
        (void)expect_grant(&world, client, 1);
        ask_pool(&world, client, 1, 2, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(&world, client, 2).kind, LIMIT_LEASES);
        ask_pool(&world, client, 1, 3, 4 * MIB, 0);
        ck_assert_int_eq(expect_limit(&world, client, 3).kind, LIMIT_PINNED_BYTES);
        ck_assert_uint_eq(client_usage(client)->n[LIMIT_LEASES], 2);
        world_free(&world);
}

TEST(what_can_never_be_does_not_wait)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        ask(&world, client, 1, 6 * MIB, FOR_EVER);
        (void)expect_limit(&world, client, 1);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_LEASES, 0);
        ask(&world, client, 2, 2 * MIB, FOR_EVER);
        (void)expect_limit(&world, client, 2);
        world_free(&world);
}

/* Whose it is, and not that of the whole tenant, or of this client alone. */
TEST(a_hopeless_refusal_says_what_its_holder_is_charged)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct limit_hit hit;

        (void)hold(&world, client, 2 * MIB);
        (void)hold(&world, join(&world, 1), 4 * MIB);
        set_limit(&world, LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        ask(&world, client, 1, 12 * MIB, FOR_EVER);
        hit = expect_limit(&world, client, 1);
        ck_assert_int_eq(hit.scope, LIMIT_OF_TENANT);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 10 * MIB);
        ask(&world, client, 2, 12 * MIB, FOR_EVER);
        hit = expect_limit(&world, client, 2);
        ck_assert_int_eq(hit.scope, LIMIT_OF_CLIENT);
        ck_assert_uint_eq(hit.used, 2 * MIB);
        world_free(&world);
}

TEST(own_returns_make_room)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held;

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        held = hold(&world, client, 4 * MIB);
        ask(&world, client, 1, 2 * MIB, FOR_EVER);
        expect_idle(&world);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        (void)expect_create(&world, client, 1);
        world_free(&world);
}

TEST(returns_in_one_pool_serve_another)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held;

        set_limit(&world, LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_LEASES, 1);
        held = hold(&world, client, 4 * MIB);
        ask_pool(&world, client, 1, 1, 2 * MIB, FOR_EVER);
        expect_idle(&world);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(take(&world, ACTION_CREATE).pool, 1);
        world_free(&world);
}

TEST(the_deadline_ends_the_wait_with_the_reason)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        (void)hold(&world, client, 4 * MIB);
        ask(&world, client, 1, 2 * MIB, world.now_ns + 10);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + 10);
        world.now_ns += 10;
        policy_expire(world.policy, world.now_ns);
        ck_assert_uint_eq(expect_limit(&world, client, 1).used, 4 * MIB);
        world_free(&world);
}

TEST(a_limited_request_holds_up_nobody_else)
{
        struct world world = world_new(100 * MIB);
        struct client *limited = join(&world, 1), *other = join(&world, 2);

        set_limit(&world, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, 4 * MIB);
        (void)hold(&world, limited, 4 * MIB);
        ask(&world, limited, 1, 4 * MIB, FOR_EVER);
        ask(&world, other, 2, 90 * MIB, 0);
        (void)expect_create(&world, other, 2);
        world_free(&world);
}

TEST(small_requests_do_not_starve_a_large_one)
{
        struct world world = world_new(100 * MIB);
        struct client *one = join(&world, 1), *two = join(&world, 1);
        struct held held[2];
        struct limit_hit hit;

        set_limit(&world, LIMIT_OF_TENANT, 1, LIMIT_DEVICE_BYTES, 8 * MIB);
        held[0] = hold(&world, one, 4 * MIB);
        held[1] = hold(&world, one, 2 * MIB);
        ask(&world, one, 1, 8 * MIB, FOR_EVER);
        /* It would fit, but somebody of the tenant asked before. */
        ask(&world, two, 2, 2 * MIB, FOR_EVER);
        ask(&world, two, 3, 2 * MIB, 0);
        hit = expect_limit(&world, two, 3);
        ck_assert_int_eq(hit.why, LIMIT_IS_WAITED_FOR);
        ck_assert_int_eq(hit.scope, LIMIT_OF_TENANT);
        ck_assert_uint_eq(hit.used, 6 * MIB);
        give_back(&world, one, held[0].lease, RETURN_UNMAPPED);
        expect_idle(&world);
        give_back(&world, one, held[1].lease, RETURN_UNMAPPED);
        (void)expect_create(&world, one, 1);
        expect_idle(&world);
        world_free(&world);
}

TEST(a_clients_wait_is_not_its_tenants)
{
        struct world world = world_new(100 * MIB);
        struct client *one = join(&world, 1), *two = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 8 * MIB);
        (void)hold(&world, one, 4 * MIB);
        ask(&world, one, 1, 8 * MIB, FOR_EVER);
        ask(&world, one, 2, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(&world, one, 2).scope, LIMIT_OF_CLIENT);
        ask(&world, two, 3, 2 * MIB, 0);
        (void)expect_create(&world, two, 3);
        world_free(&world);
}

TEST(a_cached_block_too_large_for_the_limit_is_not_taken)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        (void)cache(&world, client, 18 * MIB, RETURN_UNMAPPED);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        ask(&world, client, 1, 16 * MIB, 0);
        ck_assert_uint_eq(block_bytes(expect_create(&world, client, 1)), 16 * MIB);
        world_free(&world);
}

TEST(a_raised_limit_serves_who_waits)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 8 * MIB);
        (void)hold(&world, client, 8 * MIB);
        ask(&world, client, 1, 8 * MIB, FOR_EVER);
        expect_idle(&world);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        (void)expect_create(&world, client, 1);
        world_free(&world);
}

TEST(a_lowered_limit_refuses_what_can_not_be_any_more)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 8 * MIB);
        (void)hold(&world, client, 8 * MIB);
        ask(&world, client, 1, 8 * MIB, FOR_EVER);
        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 6 * MIB);
        (void)expect_limit(&world, client, 1);
        expect_totals(&world, 8 * MIB, 0, 0);
        world_free(&world);
}

TEST(a_new_table_replaces_the_old)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct limits *table;

        set_limit(&world, LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 2 * MIB);
        ck_assert_int_eq(limits_new(&table), 0);
        ck_assert_int_eq(limits_set_uid(table, 1, LIMIT_DEVICE_BYTES, 6 * MIB), 0);
        policy_set_limits(world.policy, table, world.now_ns);
        (void)hold(&world, client, 6 * MIB);
        ask(&world, client, 1, 2 * MIB, 0);
        ck_assert_int_eq(expect_limit(&world, client, 1).scope, LIMIT_OF_TENANT);
        policy_set_limits(world.policy, NULL, world.now_ns);
        (void)hold(&world, client, 20 * MIB);
        ck_assert_ptr_null(policy_limits(world.policy));
        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_CLIENT, 1, LIMIT_LEASES, 1, 0),
                         GPUMEM_E_BAD_REQUEST);
        world_free(&world);
}

static void set_pool_max(struct world *world, uint64_t max_bytes)
{
        ck_assert_int_eq(policy_set_pool_max(world->policy, 0, max_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

TEST(a_lowered_pool_takes_nothing_and_gives_nothing)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held[2];

        held[0] = hold(&world, client, 20 * MIB);
        held[1] = hold(&world, client, 10 * MIB);
        set_pool_max(&world, 16 * MIB);
        expect_totals(&world, 30 * MIB, 0, 0);
        ask(&world, client, 1, 10 * MIB, 0);
        expect_refusal(&world, client, 1, GPUMEM_E_REFUSED);
        ask(&world, client, 2, 18 * MIB, FOR_EVER);
        expect_refusal(&world, client, 2, GPUMEM_E_TOO_LARGE);
        /* Beyond its limit the pool caches nothing. */
        give_back(&world, client, held[0].lease, RETURN_UNMAPPED);
        expect_release(&world, held[0].block);
        ask(&world, client, 3, 6 * MIB, 0);
        (void)expect_create(&world, client, 3);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 2, MIB, 0), GPUMEM_E_NO_POOL);
        world_free(&world);
}

TEST(a_lowered_pool_releases_its_cache)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held mapped = cache(&world, client, 20 * MIB, RETURN_MAPPED);
        struct held unmapped = cache(&world, client, 10 * MIB, RETURN_UNMAPPED);

        /* What nobody maps comes back by being released: that goes first. */
        set_pool_max(&world, 20 * MIB);
        expect_release(&world, unmapped.block);
        expect_idle(&world);
        set_pool_max(&world, 8 * MIB);
        expect_release(&world, mapped.block);
        ask(&world, client, 1, 8 * MIB, FOR_EVER);
        expect_idle(&world);
        unmap(&world, client, mapped.id);
        (void)expect_create(&world, client, 1);
        world_free(&world);
}

TEST(who_waits_is_told_when_the_pool_has_become_too_small)
{
        struct world world = world_new(20 * MIB);
        struct client *client = join(&world, 1);

        (void)hold(&world, client, 10 * MIB);
        ask(&world, client, 1, 16 * MIB, FOR_EVER);
        expect_idle(&world);
        set_pool_max(&world, 12 * MIB);
        expect_refusal(&world, client, 1, GPUMEM_E_TOO_LARGE);
        set_pool_max(&world, 30 * MIB);
        ask(&world, client, 2, 20 * MIB, 0);
        (void)expect_create(&world, client, 2);
        world_free(&world);
}

/* A pool of 30 MiB that has 40: 20 are released but still mapped. Two requests wait, the second until now;
 * then the other 20 can be released. */
static struct block *owe(struct world *world, struct client *asker, uint64_t n_first_bytes,
                         uint64_t n_second_bytes)
{
        struct client *owner = join(world, 1);
        struct held lingering = hold(world, owner, 20 * MIB), held = hold(world, owner, 20 * MIB);

        give_back(world, owner, lingering.lease, RETURN_MAPPED);
        set_pool_max(world, 20 * MIB);
        expect_release(world, lingering.block);
        set_pool_max(world, 30 * MIB);
        ask(world, asker, 1, n_first_bytes, FOR_EVER);
        ask(world, asker, 2, n_second_bytes, world->now_ns + 1000);
        expect_idle(world);
        world->now_ns += 1000;
        give_back(world, owner, held.lease, RETURN_UNMAPPED);
        return held.block;
}

/* Of the 20 MiB 10 pay for what is beyond the limit; the rest is enough for both. */
TEST(what_is_owed_is_paid_once)
{
        struct world world = world_new(100 * MIB);
        struct client *asker = join(&world, 2);
        struct block *block = owe(&world, asker, 8 * MIB, 2 * MIB);
        struct action action = take(&world, ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        expect_idle(&world);
        released(&world, block);
        (void)expect_create(&world, asker, 1);
        (void)expect_create(&world, asker, 2);
        expect_idle(&world);
        world_free(&world);
}

TEST(what_is_owed_serves_nobody)
{
        struct world world = world_new(100 * MIB);
        struct client *asker = join(&world, 2);
        struct block *block = owe(&world, asker, 8 * MIB, 4 * MIB);
        struct action action = take(&world, ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        expect_refusal(&world, asker, 2, GPUMEM_E_TIMED_OUT);
        released(&world, block);
        (void)expect_create(&world, asker, 1);
        expect_idle(&world);
        world_free(&world);
}

/* It would take 24 MiB, or 22: the cache is kept. */
TEST(nothing_is_released_that_would_only_be_charged)
{
        struct world world = world_new(100 * MIB);
        struct client *asker = join(&world, 2);

        (void)owe(&world, asker, 14 * MIB, 12 * MIB);
        expect_refusal(&world, asker, 2, GPUMEM_E_TIMED_OUT);
        expect_idle(&world);
        expect_totals(&world, 0, 20 * MIB, 20 * MIB);
        world_free(&world);
}

TESTS_MAIN("policy: limits")
