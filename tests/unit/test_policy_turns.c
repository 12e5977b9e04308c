/* SPDX-License-Identifier: Apache-2.0 */
/* Those that wait: whose turn it is, and which may bypass which. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/scheduling/backfill.h"
#include "tests/unit/policy_world.h"

static void ask_several(struct world *world, struct client *client, unsigned n, uint64_t n_bytes)
{
        for (uint32_t serial = 1; serial <= n; serial++)
                ask(world, client, serial, n_bytes, UINT64_MAX);
}

/* The next action has a block made for the client's request; then it is. */
static void expect_turn(struct world *world, const struct client *client, uint32_t serial)
{
        struct action action = take(world, ACTION_CREATE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
}

static void free_up(struct world *world, struct client *client, const struct held *held)
{
        give_back(world, client, held->lease, RETURN_UNMAPPED);
        expect_release(world, held->block);
}

TEST(tenants_take_turns)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held[4];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold(&world, x, 2 * MIB);
        ask_several(&world, a, 3, 2 * MIB);
        ask_several(&world, b, 2, 2 * MIB);
        free_up(&world, x, &held[0]);
        expect_turn(&world, a, 1);
        free_up(&world, x, &held[1]);
        expect_turn(&world, b, 1);
        free_up(&world, x, &held[2]);
        expect_turn(&world, a, 2);
        free_up(&world, x, &held[3]);
        expect_turn(&world, b, 2);
        expect_idle(&world);
        world_free(&world);
}

TEST(bytes_make_a_turn_and_not_requests)
{
        struct world world = world_new(16 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, x, 16 * MIB);

        ask_several(&world, a, 3, 4 * MIB);
        ask_several(&world, b, 5, 2 * MIB);
        free_up(&world, x, &held);
        expect_turn(&world, a, 1);
        expect_turn(&world, b, 1);
        expect_turn(&world, b, 2);
        expect_turn(&world, a, 2);
        expect_turn(&world, b, 3);
        expect_turn(&world, b, 4);
        expect_idle(&world);
        world_free(&world);
}

/* Processes of one tenant share its turns. */
TEST(many_processes_are_no_more_than_one)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *b = join(&world, 2), *many[3];
        struct held held = hold(&world, x, 8 * MIB);

        for (unsigned i = 0; i < ARRAY_SIZE(many); i++) {
                many[i] = join(&world, 1);
                ask_several(&world, many[i], 1, 2 * MIB);
        }
        ask_several(&world, b, 2, 2 * MIB);
        free_up(&world, x, &held);
        expect_turn(&world, many[0], 1);
        expect_turn(&world, b, 1);
        expect_turn(&world, many[1], 1);
        expect_turn(&world, b, 2);
        world_free(&world);
}

TEST(who_begins_to_wait_has_no_claim_from_before)
{
        struct world world = world_new(16 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held first = hold(&world, x, 8 * MIB), second = hold(&world, x, 8 * MIB);

        ask_several(&world, a, 6, 2 * MIB);
        free_up(&world, x, &first);
        for (uint32_t serial = 1; serial <= 4; serial++)
                expect_turn(&world, a, serial);
        ask_several(&world, b, 4, 2 * MIB);
        free_up(&world, x, &second);
        expect_turn(&world, b, 1);
        expect_turn(&world, a, 5);
        expect_turn(&world, b, 2);
        expect_turn(&world, a, 6);
        expect_idle(&world);
        world_free(&world);
}

TEST(one_that_the_driver_had_nothing_for_loses_no_turn)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, x, 4 * MIB), other = hold(&world, x, 4 * MIB);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        free_up(&world, x, &held);
        block = take(&world, ACTION_CREATE).block;
        created(&world, block, GPUMEM_E_DEVICE_FULL);
        free_up(&world, x, &other);
        expect_turn(&world, a, 1);
        expect_turn(&world, b, 1);
        world_free(&world);
}

TEST(what_fits_passes_what_does_not)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, x, 4 * MIB);

        ask(&world, a, 1, 8 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask(&world, a, 2, 2 * MIB, UINT64_MAX);
        expect_turn(&world, a, 2);
        ask(&world, b, 1, 2 * MIB, 0);
        expect_turn(&world, b, 1);
        ask(&world, b, 2, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        free_up(&world, x, &held);
        expect_turn(&world, b, 2);
        world_free(&world);
}

/* One that fits, and whose block is not made in the end. */
static void bypass(struct world *world, struct client *client)
{
        ask(world, client, 1, 2 * MIB, 0);
        created(world, take(world, ACTION_CREATE).block, -EIO);
        expect_refusal(world, client, 1, -EIO);
}

TEST(no_request_is_bypassed_more_often_than_that)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, x, 4 * MIB);

        ask(&world, a, 1, 8 * MIB, world.now_ns + 1000);
        for (unsigned i = 0; i < BACKFILL_MAX; i++)
                bypass(&world, b);
        ask(&world, b, 1, 2 * MIB, 0);
        expect_refusal(&world, b, 1, GPUMEM_E_REFUSED);
        ask(&world, b, 2, 2 * MIB, UINT64_MAX);
        ask(&world, a, 2, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        /* What comes is for the one that was bypassed; they go on behind it. */
        free_up(&world, x, &held);
        expect_turn(&world, a, 1);
        expect_idle(&world);
        world_free(&world);
}

/* What waits in vain is small; others want as much or more, and their own idle leases would make the room,
 * which are within the minimum that nobody else may take from. */
TEST(one_that_asks_for_little_in_vain_holds_nobody_up)
{
        struct world world = world_new(16 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct client *b2 = join(&world, 2);
        struct held idle[2];

        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 8 * MIB, world.now_ns), 0);
        (void)hold(&world, x, 8 * MIB);
        for (unsigned i = 0; i < 2; i++) {
                idle[i] = hold(&world, b, 4 * MIB);
                mark_idle(&world, b, idle[i].lease);
        }
        ask(&world, a, 1, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask(&world, b2, 1, 8 * MIB, world.now_ns + 600 * 1000000000ULL);
        world.now_ns += BACKFILL_HOLD_NS;
        policy_expire(world.policy, world.now_ns);
        world.now_ns += BACKFILL_ROUND_NS / 2;
        policy_expire(world.policy, world.now_ns);
        ck_assert(was_revoked(&world, b, idle[0].lease));
        ck_assert(was_revoked(&world, b, idle[1].lease));
        world_free(&world);
}

/* Several are no longer in the way than one. */
TEST(those_that_ask_in_vain_hold_up_others_at_the_same_time)
{
        struct world world = world_new(16 * MIB);
        struct client *x = join(&world, 9), *b = join(&world, 2), *b2 = join(&world, 2);
        struct held idle;

        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 8 * MIB, world.now_ns), 0);
        (void)hold(&world, x, 8 * MIB);
        idle = hold(&world, b, 8 * MIB);
        mark_idle(&world, b, idle.lease);
        for (uint32_t uid = 10; uid < 20; uid++)
                ask(&world, join(&world, uid), 1, 2 * MIB, UINT64_MAX);
        world.now_ns += BACKFILL_ROUND_NS;
        policy_expire(world.policy, world.now_ns);
        ask(&world, b2, 1, 6 * MIB, UINT64_MAX);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + BACKFILL_HOLD_NS);
        ck_assert(!was_revoked(&world, b, idle.lease));
        world.now_ns += BACKFILL_HOLD_NS;
        policy_expire(world.policy, world.now_ns);
        ck_assert(was_revoked(&world, b, idle.lease));
        world_free(&world);
}

/* Without those that wait in vain it is so at once. */
TEST(own_idle_leases_make_room)
{
        struct world world = world_new(16 * MIB);
        struct client *x = join(&world, 9), *b = join(&world, 2), *b2 = join(&world, 2);
        struct held idle[2];

        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 8 * MIB, world.now_ns), 0);
        (void)hold(&world, x, 8 * MIB);
        for (unsigned i = 0; i < 2; i++) {
                idle[i] = hold(&world, b, 4 * MIB);
                mark_idle(&world, b, idle[i].lease);
        }
        ask(&world, b2, 1, 8 * MIB, world.now_ns + 600 * 1000000000ULL);
        ck_assert(was_revoked(&world, b, idle[0].lease));
        ck_assert(was_revoked(&world, b, idle[1].lease));
        world_free(&world);
}

/* One asks for all there is, with all the time there is; others do not stand still for it. */
TEST(nobody_is_held_up_for_long)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, x, 4 * MIB);

        for (unsigned round = 0; round < 3; round++) {
                uint64_t since_ns = world.now_ns;

                ask(&world, a, round, 8 * MIB, UINT64_MAX);
                for (unsigned i = 0; i < BACKFILL_MAX && !round; i++)
                        bypass(&world, b);
                ask(&world, b, 1, 2 * MIB, UINT64_MAX);
                expect_idle(&world);
                ck_assert_uint_eq(policy_next_deadline(world.policy), since_ns + BACKFILL_HOLD_NS);
                world.now_ns = since_ns + BACKFILL_HOLD_NS - 1;
                policy_expire(world.policy, world.now_ns);
                expect_idle(&world);
                world.now_ns++;
                policy_expire(world.policy, world.now_ns);
                created(&world, take(&world, ACTION_CREATE).block, -EIO);
                expect_refusal(&world, b, 1, -EIO);
                ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
                /* In the rest of the time it is bypassed more often, whatever else its tenant asks for. */
                world.now_ns = since_ns + BACKFILL_ROUND_NS - 1;
                for (unsigned i = 0; i < 2 * BACKFILL_MAX; i++)
                        bypass(&world, b);
                world.now_ns++;
        }
        ask(&world, b, 1, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        free_up(&world, x, &held);
        expect_turn(&world, a, 0);
        world_free(&world);
}

TEST(bypassed_client_that_leaves_lets_others_go_on)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *a = join(&world, 1), *b = join(&world, 2);

        (void)hold(&world, x, 4 * MIB);
        for (unsigned end = 0; end < 3; end++) {
                ask(&world, a, 1, 8 * MIB, world.now_ns + 1000);
                for (unsigned i = 0; i < BACKFILL_MAX; i++)
                        bypass(&world, b);
                ask(&world, b, 1, 2 * MIB, UINT64_MAX);
                expect_idle(&world);
                world.now_ns += end == 0 ? 1000 : 0;
                if (end == 0)
                        policy_expire(world.policy, world.now_ns);
                else if (end == 1)
                        policy_cancel(world.policy, a, 1, world.now_ns);
                else
                        (void)policy_client_dead(world.policy, a, world.now_ns);
                if (end < 2)
                        expect_refusal(&world, a, 1,
                                       end == 0 ? GPUMEM_E_TIMED_OUT : GPUMEM_E_CANCELLED);
                created(&world, take(&world, ACTION_CREATE).block, -EIO);
                expect_refusal(&world, b, 1, -EIO);
        }
        world_free(&world);
}

/* The driver has less than it seems: as much is not tried again for somebody else. */
TEST(only_what_is_smaller_passes)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        ask(&world, b, 1, 6 * MIB, UINT64_MAX);
        ask(&world, b, 2, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        ask(&world, b, 3, 2 * MIB, UINT64_MAX);
        expect_turn(&world, b, 3);
        expect_idle(&world);
        world_free(&world);
}

/* A process of a tenant that has no other, from its beginning to its end. */
static void come_and_go(struct world *world)
{
        struct client *client = join(world, 1);
        struct block *block;

        ask(world, client, 1, 2 * MIB, UINT64_MAX);
        block = take(world, ACTION_CREATE).block;
        created(world, block, 0);
        (void)expect_grant(world, client, 1);
        ck_assert(!policy_client_eof(world->policy, client, world->now_ns));
        ck_assert(policy_client_dead(world->policy, client, world->now_ns));
        expect_release(world, block);
}

/* What a tenant was given counts after its end, or those that come and go would be first for ever. */
TEST(who_comes_and_goes_begins_no_better)
{
        struct world world = world_new(8 * MIB);
        struct client *x = join(&world, 9), *b = join(&world, 2);

        (void)hold(&world, x, 2 * MIB);
        (void)hold(&world, b, 4 * MIB);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        /* Two before it, as much as it has; then those that bypass it. */
        for (unsigned i = 0; i < 2 + BACKFILL_MAX; i++)
                come_and_go(&world);
        ask(&world, join(&world, 1), 1, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        world_free(&world);
}

TESTS_MAIN("policy: turns")
