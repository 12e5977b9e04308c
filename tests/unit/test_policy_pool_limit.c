/* A pool's limit that is lowered while it is used. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

#define FOR_EVER UINT64_MAX

static struct block *expect_create(struct world *world, const struct client *client,
                                   uint32_t serial)
{
        struct action action = take(world, ACTION_CREATE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        return action.block;
}

static void set_pool_max(struct world *world, uint64_t max_bytes)
{
        ck_assert_int_eq(policy_set_pool_max(world->policy, 0, max_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

START_TEST(a_lowered_pool_takes_nothing_and_gives_nothing)
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
END_TEST

START_TEST(a_lowered_pool_releases_its_cache)
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
END_TEST

START_TEST(who_waits_is_told_when_the_pool_has_become_too_small)
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
END_TEST

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
START_TEST(what_is_owed_is_paid_once)
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
END_TEST

START_TEST(what_is_owed_serves_nobody)
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
END_TEST

/* It would take 24 MiB, or 22: the cache is kept. */
START_TEST(nothing_is_released_that_would_only_be_charged)
{
        struct world world = world_new(100 * MIB);
        struct client *asker = join(&world, 2);

        (void)owe(&world, asker, 14 * MIB, 12 * MIB);
        expect_refusal(&world, asker, 2, GPUMEM_E_TIMED_OUT);
        expect_idle(&world);
        expect_totals(&world, 0, 20 * MIB, 20 * MIB);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *const tests[] = {
                a_lowered_pool_takes_nothing_and_gives_nothing,
                a_lowered_pool_releases_its_cache,
                who_waits_is_told_when_the_pool_has_become_too_small,
                what_is_owed_is_paid_once,
                what_is_owed_serves_nobody,
                nothing_is_released_that_would_only_be_charged,
        };

        return run_tests("policy: a pool's limit", tests, ARRAY_SIZE(tests));
}
