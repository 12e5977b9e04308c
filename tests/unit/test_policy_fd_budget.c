/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with few fds: how many blocks a tenant may have, and what is released for another one. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

#define MANY_BYTES (1024 * MIB)
#define N_MAX      10

/* Of so many one tenant alone has these. */
#define N_ALONE 8

static struct world few_fds(void)
{
        struct world world = world_new(MANY_BYTES);

        policy_set_max_blocks(world.policy, N_MAX);
        return world;
}

static void fill(struct world *world, struct client *client, unsigned n, struct held *ret_held)
{
        for (unsigned i = 0; i < n; i++)
                ret_held[i] = hold(world, client, 4 * MIB);
}

static void expect_too_many(struct world *world, const struct client *client, uint32_t serial)
{
        struct action action = take(world, ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, GPUMEM_E_TOO_MANY);
        ck_assert(action.of_blocks);
}

static void expect_granted_after(struct world *world, struct client *client, uint32_t serial,
                                 const struct block *release)
{
        expect_release(world, release);
        created(world, take(world, ACTION_CREATE).block, 0);
        (void)expect_grant(world, client, serial);
        expect_idle(world);
}

TEST(one_alone_leaves_some_for_others)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1), *kin = join(&world, 1), *b = join(&world, 2);
        struct held held[N_MAX];

        fill(&world, a, N_ALONE / 2, held);
        fill(&world, kin, N_ALONE / 2, held);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_too_many(&world, a, 1);
        ask(&world, kin, 1, 8 * MIB, 0);
        expect_too_many(&world, kin, 1);
        fill(&world, b, N_MAX - N_ALONE, held);
        ck_assert_uint_eq(policy_open_blocks(world.policy), N_MAX);
        ask(&world, b, 1, 8 * MIB, 0);
        expect_too_many(&world, b, 1);
        expect_idle(&world);
        world_free(&world);
}

TEST(a_cached_block_goes_for_another)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        give_back(&world, a, held[0].lease, RETURN_UNMAPPED);
        expect_idle(&world);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_granted_after(&world, a, 1, held[0].block);
        world_free(&world);
}

/* All that it may have: in pool 0, and the last one in pool 1, which is cached and returned. */
static struct block *fill_two_pools(struct world *world, struct client *client)
{
        const struct policy_ask pinned = {.pool = 1, .serial = 1, .n_bytes = 4 * MIB};
        struct held held[N_ALONE];
        struct block *block;

        fill(world, client, N_ALONE - 1, held);
        ask_with(world, client, &pinned);
        block = take(world, ACTION_CREATE).block;
        created(world, block, 0);
        give_back(world, client, expect_grant(world, client, 1), RETURN_UNMAPPED);
        return block;
}

TEST(so_does_one_of_another_pool)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct block *block = fill_two_pools(&world, a);

        ask(&world, a, 2, 8 * MIB, 0);
        expect_granted_after(&world, a, 2, block);
        world_free(&world);
}

TEST(so_does_one_that_is_still_mapped)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        give_back(&world, a, held[0].lease, RETURN_MAPPED);
        ask(&world, a, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held[0].block);
        /* Its file is closed then, though the client maps it still. */
        released(&world, held[0].block);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}

TEST(so_does_one_that_is_not_used)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        mark_idle(&world, a, held[3].lease);
        ask(&world, a, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held[3].block);
        ck_assert(was_revoked(&world, a, held[3].lease));
        world_free(&world);
}

TEST(one_goes_for_one)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        for (unsigned i = 0; i < 3; i++)
                give_back(&world, a, held[i].lease, RETURN_UNMAPPED);
        ask(&world, a, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held[0].block);
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        released(&world, held[0].block);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        expect_idle(&world);
        world_free(&world);
}

TEST(a_waiting_request_is_served_when_an_fd_is_closed)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[N_ALONE], other[N_MAX - N_ALONE];

        fill(&world, a, N_ALONE, held);
        fill(&world, b, N_MAX - N_ALONE, other);
        ask(&world, b, 1, 8 * MIB, 5000);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        give_back(&world, a, held[0].lease, RETURN_UNMAPPED);
        expect_granted_after(&world, b, 1, held[0].block);
        ask(&world, b, 2, 8 * MIB, 6000);
        expect_idle(&world);
        policy_expire(world.policy, 6000);
        expect_too_many(&world, b, 2);
        world_free(&world);
}

/* Of what the driver does not take back, no file is left either. */
TEST(what_does_not_go_has_no_fd)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        give_back(&world, a, held[0].lease, RETURN_UNMAPPED);
        ask(&world, a, 1, 8 * MIB, 0);
        policy_not_released(world.policy, take(&world, ACTION_RELEASE).block, world.now_ns);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}

/* It is one's own share that is used up. */
TEST(nothing_of_others_goes_in_vain)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[N_ALONE];

        fill(&world, a, N_ALONE, held);
        (void)cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_too_many(&world, a, 1);
        expect_idle(&world);
        world_free(&world);
}

/* What others release leaves the tenant no more. */
TEST(nobody_waits_for_what_is_no_help)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[N_ALONE], other;

        fill(&world, a, N_ALONE, held);
        other = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_release_all(world.policy, b, 1, SCOPE_TENANT, 0), 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, other.block);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_too_many(&world, a, 1);
        expect_idle(&world);
        world_free(&world);
}

TEST(nobody_waits_for_a_driver_that_does_not_answer)
{
        struct world world = few_fds();
        struct client *a = join(&world, 1);
        struct block *block = fill_two_pools(&world, a);

        ask(&world, a, 2, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, block);
        expect_idle(&world);
        ck_assert_int_eq(policy_set_driver_status(world.policy, 1, DRIVER_STALLED, world.now_ns),
                         0);
        expect_too_many(&world, a, 2);
        expect_idle(&world);
        world_free(&world);
}

TESTS_MAIN("policy: fd budget")
