/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does not answer, has lost its device, or has less than the pool's limit says: what is served all the
 * same, who is refused and when, and that no bytes of before are served after a loss. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/driver_state.h"
#include "tests/unit/policy_world.h"

#define SECOND UINT64_C(1000000000)

static void stand(struct world *world, enum driver_status status)
{
        ck_assert_int_eq(policy_set_driver_status(world->policy, 0, status, world->now_ns), 0);
        policy_check(world->policy);
}

static void expire(struct world *world, uint64_t now_ns)
{
        world->now_ns = now_ns;
        policy_expire(world->policy, now_ns);
        policy_check(world->policy);
}

TEST(a_stalled_pool_serves_its_cache)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);
        const struct lease *lease;

        stand(&world, DRIVER_STALLED);
        ask(&world, client, 7, 4 * MIB, 0);
        lease = expect_grant(&world, client, 7);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        ask(&world, client, 8, 8 * MIB, 0);
        expect_refusal(&world, client, 8, GPUMEM_E_STALLED);
        expect_idle(&world);
        world_free(&world);
}

TEST(who_may_wait_waits_until_its_deadline)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        stand(&world, DRIVER_STALLED);
        ask(&world, client, 1, 4 * MIB, 5000);
        ask(&world, client, 2, 4 * MIB, 9000);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        expire(&world, 5000);
        expect_refusal(&world, client, 1, GPUMEM_E_STALLED);
        stand(&world, DRIVER_SERVES);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, client, 2);
        world_free(&world);
}

/* Its block is made all the same, some time: for the cache. */
TEST(one_whose_block_hangs_is_refused_at_its_deadline)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct block *blocks[2];

        ask(&world, client, 1, 4 * MIB, 0);
        blocks[0] = take(&world, ACTION_CREATE).block;
        ask(&world, client, 2, 4 * MIB, 5000);
        blocks[1] = take(&world, ACTION_CREATE).block;
        expire(&world, 4000);
        expect_idle(&world);
        stand(&world, DRIVER_STALLED);
        expect_refusal(&world, client, 1, GPUMEM_E_STALLED);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        expire(&world, 5000);
        expect_refusal(&world, client, 2, GPUMEM_E_STALLED);
        expect_totals(&world, 0, 8 * MIB, 0);
        stand(&world, DRIVER_SERVES);
        created(&world, blocks[0], 0);
        created(&world, blocks[1], 0);
        expect_totals(&world, 0, 8 * MIB, 0);
        ask(&world, client, 3, 4 * MIB, 0);
        (void)expect_grant(&world, client, 3);
        world_free(&world);
}

TEST(a_lost_pool_refuses_everybody)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_UNMAPPED);

        stand(&world, DRIVER_LOST);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held.block);
        ask(&world, client, 1, 4 * MIB, 9 * SECOND);
        expect_refusal(&world, client, 1, -ENODEV);
        expect_totals(&world, 0, 0, 4 * MIB);
        stand(&world, DRIVER_SERVES);
        ask(&world, client, 2, 4 * MIB, 0);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, client, 2);
        released(&world, held.block);
        world_free(&world);
}

/* The driver may say yet that it has made it: that was before the loss, or may have been. */
TEST(one_whose_block_is_being_made_is_refused_when_the_device_is_lost)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct block *block;

        ask(&world, client, 1, 4 * MIB, 9 * SECOND);
        block = take(&world, ACTION_CREATE).block;
        stand(&world, DRIVER_LOST);
        expect_refusal(&world, client, 1, -ENODEV);
        created(&world, block, 0);
        expect_release(&world, block);
        world_free(&world);
}

TEST(what_was_leased_before_a_loss_is_not_cached_after_it)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held busy = hold(&world, client, 4 * MIB), idle = hold(&world, client, 8 * MIB);

        mark_idle(&world, client, idle.lease);
        stand(&world, DRIVER_LOST);
        ck_assert(was_revoked(&world, client, idle.lease));
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, idle.block);
        expect_notice(&world, client, idle.lease);
        released(&world, idle.block);
        unmap(&world, client, idle.id);
        stand(&world, DRIVER_SERVES);
        give_back(&world, client, busy.lease, RETURN_UNMAPPED);
        expect_release(&world, busy.block);
        world_free(&world);
}

/* Nobody is promised bytes that the driver has not taken. */
TEST(a_block_that_cannot_be_released_lingers_and_nobody_counts_on_it)
{
        struct world world = world_new(8 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 8 * MIB, RETURN_UNMAPPED);

        ask(&world, client, 1, 4 * MIB, 5000);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held.block);
        policy_not_released(world.policy, held.block, world.now_ns);
        policy_check(world.policy);
        expect_totals(&world, 0, 0, 8 * MIB);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        expire(&world, 5000);
        expect_refusal(&world, client, 1, GPUMEM_E_TIMED_OUT);
        released(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TEST(an_unknown_pool_has_no_driver_status)
{
        struct world world = world_new(8 * MIB);

        ck_assert_int_eq(policy_set_driver_status(world.policy, 2, DRIVER_LOST, 0),
                         GPUMEM_E_NO_POOL);
        world_free(&world);
}

TEST(a_call_that_takes_too_long_stalls_until_it_returns)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(!driver_state_see_call(&state, false, 1));
        ck_assert(driver_state_see_call(&state, true, 2));
        ck_assert_int_eq(state.status, DRIVER_STALLED);
        ck_assert_uint_eq(state.since_ns, 2);
        ck_assert(!driver_state_see_call(&state, true, 3));
        ck_assert(driver_state_see_call(&state, false, 4));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
        ck_assert_uint_eq(state.since_ns, 4);
}

TEST(a_loss_lasts_until_a_call_succeeds)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(!driver_state_note_result(&state, -EIO, 1));
        ck_assert(!driver_state_take_try(&state, 0, 9 * SECOND));
        ck_assert(driver_state_note_result(&state, -ENODEV, 1));
        ck_assert_int_eq(state.status, DRIVER_LOST);
        ck_assert(!driver_state_note_result(&state, -EIO, 2));
        ck_assert(!driver_state_see_call(&state, true, 3));
        ck_assert(!driver_state_see_call(&state, false, 4));
        ck_assert(!driver_state_take_try(&state, 0, SECOND));
        ck_assert(driver_state_take_try(&state, 0, SECOND + 1));
        ck_assert(!driver_state_take_try(&state, 0, SECOND + 2));
        ck_assert(!driver_state_note_result(&state, -ENODEV, SECOND + 3));
        ck_assert(driver_state_take_try(&state, 0, 2 * SECOND + 1));
        ck_assert(driver_state_note_result(&state, GPUMEM_E_DEVICE_FULL, 3 * SECOND));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
}

TEST(both_signs_of_a_loss_must_go)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(driver_state_see_nvml(&state, true, 1));
        ck_assert(!driver_state_take_try(&state, 0, 9 * SECOND));
        ck_assert(!driver_state_note_result(&state, -ENODEV, 2));
        ck_assert(!driver_state_see_nvml(&state, false, 3));
        ck_assert(driver_state_note_result(&state, 0, 4));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
}

TEST(a_release_of_memory_from_before_a_loss_says_nothing)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(driver_state_note_result(&state, -ENODEV, 1));
        ck_assert_uint_eq(state.n_losses, 1);
        ck_assert(driver_state_note_result(&state, 0, 2));
        ck_assert(!driver_state_note_release(&state, 0, -ENODEV, 3));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
        ck_assert(!driver_state_note_release(&state, 1, -EIO, 4));
        ck_assert(driver_state_note_release(&state, 1, -ENODEV, 5));
        ck_assert_int_eq(state.status, DRIVER_LOST);
        ck_assert_uint_eq(state.n_losses, 2);
        ck_assert(!driver_state_note_release(&state, 2, 0, 6));
        ck_assert(!driver_state_note_release(&state, 2, GPUMEM_E_DEVICE_FULL, 7));
        ck_assert_int_eq(state.status, DRIVER_LOST);
}

TEST(what_is_not_taken_back_is_tried_less_and_less)
{
        struct driver_state state = {.status = DRIVER_SERVES, .n_losses = 1};
        static const uint64_t waits[] = {1, 2, 4, 4, 4}, old_waits[] = {1, 2, 4, 8, 16, 32, 64, 64};

        for (unsigned i = 0; i < ARRAY_SIZE(waits); i++)
                ck_assert_uint_eq(driver_state_next_release(&state, 1, i + 1, 7),
                                  7 + waits[i] * SECOND);
        for (unsigned i = 0; i < ARRAY_SIZE(old_waits); i++)
                ck_assert_uint_eq(driver_state_next_release(&state, 0, i + 1, 7),
                                  7 + old_waits[i] * SECOND);
        ck_assert_uint_eq(driver_state_next_release(&state, 1, UINT32_MAX, 0), 4 * SECOND);
        ck_assert_uint_eq(driver_state_next_release(&state, 0, UINT32_MAX, 0), 64 * SECOND);
}

TEST(trials_that_leave_memory_behind_become_rare)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(driver_state_note_result(&state, -ENODEV, 0));
        ck_assert(driver_state_take_try(&state, 2, SECOND));
        ck_assert(!driver_state_take_try(&state, 2, 5 * SECOND - 1));
        ck_assert(driver_state_take_try(&state, 100, 5 * SECOND));
        ck_assert(!driver_state_take_try(&state, 0, 69 * SECOND - 1));
        ck_assert(driver_state_take_try(&state, 0, 69 * SECOND));
        ck_assert(driver_state_take_try(&state, 0, 70 * SECOND));
}

static void set_unreleasable(struct world *world, uint64_t n_bytes)
{
        ck_assert_int_eq(policy_set_unreleasable(world->policy, 0, n_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

/* It takes room as any block does, and nobody is charged for it. */
TEST(what_is_no_block_lingers_too)
{
        struct world world = world_new(8 * MIB);
        struct client *client = join(&world, 1);

        ask(&world, client, 1, 8 * MIB, 5000);
        set_unreleasable(&world, 8 * MIB);
        created(&world, take(&world, ACTION_CREATE).block, -EIO);
        expect_refusal(&world, client, 1, -EIO);
        expect_totals(&world, 0, 0, 8 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ask(&world, client, 2, 4 * MIB, 5000);
        expect_idle(&world);
        set_unreleasable(&world, 4 * MIB);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, client, 2);
        expect_totals(&world, 4 * MIB, 0, 4 * MIB);
        set_unreleasable(&world, 0);
        ck_assert_int_eq(policy_set_unreleasable(world.policy, 2, MIB, 0), GPUMEM_E_NO_POOL);
        world_free(&world);
}

/* Asks, and the driver has nothing. */
static void ask_in_vain(struct world *world, struct client *client, uint32_t serial,
                        uint64_t n_bytes, uint64_t deadline_ns)
{
        ask(world, client, serial, n_bytes, deadline_ns);
        created(world, take(world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
}

TEST(one_that_does_not_wait_is_refused)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);

        ask_in_vain(&world, a, 1, 4 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        expect_totals(&world, 0, 0, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(stats(&world).n_blocks, 0);
        world_free(&world);
}

TEST(cached_blocks_are_released_and_it_is_tried_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held of_b = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct held of_a = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct block *block;

        ask_in_vain(&world, a, 1, 8 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, of_a.block);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, of_b.block);
        expect_idle(&world);
        released(&world, of_a.block);
        /* The rest is still on its way. */
        expect_idle(&world);
        released(&world, of_b.block);
        block = take(&world, ACTION_CREATE).block;
        expect_idle(&world);
        created(&world, block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}

TEST(only_as_many_bytes_are_released_as_were_asked_for)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held held[3];

        cache_several(&world, a, 4 * MIB, 3, held);
        for (unsigned i = 0; i < 3; i++)
                unmap(&world, a, held[i].id);
        ask_in_vain(&world, a, 1, 8 * MIB, 0);
        expect_release(&world, held[0].block);
        expect_release(&world, held[1].block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_release(&world, held[2].block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        world_free(&world);
}

TEST(it_is_not_tried_again_before_something_has_happened)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 4 * MIB);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        policy_expire(world.policy, 4999);
        expect_idle(&world);
        give_back(&world, b, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        created(&world, take(&world, ACTION_CREATE).block, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        policy_expire(world.policy, 5000);
        expect_refusal(&world, a, 1, GPUMEM_E_DEVICE_FULL);
        world_free(&world);
}

TEST(a_death_lets_it_try_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 4 * MIB);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        ck_assert(!policy_client_eof(world.policy, b, world.now_ns));
        expect_release(&world, held.block);
        expect_idle(&world);
        ck_assert(policy_client_dead(world.policy, b, world.now_ns));
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(unmapping_lets_it_try_again)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 4 * MIB, RETURN_MAPPED);

        ask_in_vain(&world, a, 1, 4 * MIB, 5000);
        expect_release(&world, held.block);
        expect_idle(&world);
        unmap(&world, b, held.id);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(bytes_that_came_back_meanwhile_are_tried_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct block *block;

        ask(&world, a, 1, 4 * MIB, 0);
        block = take(&world, ACTION_CREATE).block;
        ck_assert_int_eq(policy_release_all(world.policy, b, 1, SCOPE_TENANT, 0), 0);
        expect_release(&world, held.block);
        (void)take(&world, ACTION_FREED);
        created(&world, block, GPUMEM_E_DEVICE_FULL);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        world_free(&world);
}

TEST(it_keeps_its_place_in_the_queue)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held held = hold(&world, c, 4 * MIB);
        struct block *of_a, *of_b;

        ask(&world, a, 1, 8 * MIB, 5000);
        ask(&world, b, 1, 4 * MIB, 5000);
        of_a = take(&world, ACTION_CREATE).block;
        of_b = take(&world, ACTION_CREATE).block;
        created(&world, of_b, GPUMEM_E_DEVICE_FULL);
        created(&world, of_a, GPUMEM_E_DEVICE_FULL);
        expect_idle(&world);
        give_back(&world, c, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 8 * MIB);
        world_free(&world);
}

static void mark_unusable(struct world *world, struct block *block)
{
        policy_mark_unusable(world->policy, block, world->now_ns);
        policy_check(world->policy);
}

TEST(an_unusable_block_is_not_cached)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        mark_unusable(&world, held.block);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

TEST(an_unusable_cached_block_is_released_at_once)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 4 * MIB, RETURN_MAPPED);

        mark_unusable(&world, held.block);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 4 * MIB);
        unmap(&world, client, held.id);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

/* Another tenant waits: the room of the unusable block is its own. */
TEST(room_of_an_unusable_block_serves_a_waiting_request)
{
        struct world world = world_new(4 * MIB);
        struct client *one = join(&world, 1), *other = join(&world, 2);
        struct held held = hold(&world, one, 4 * MIB);

        ask(&world, other, 1, 4 * MIB, UINT64_MAX);
        mark_unusable(&world, held.block);
        expect_idle(&world);
        give_back(&world, one, held.lease, RETURN_UNMAPPED);
        expect_release(&world, held.block);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, other, 1);
        world_free(&world);
}

TEST(a_lease_is_told_by_its_client_only)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *sibling = join(&world, 1);
        struct held held = hold(&world, client, 4 * MIB);

        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        ck_assert_ptr_null(policy_leased_block(sibling, held.id));
        ck_assert_ptr_null(policy_leased_block(client, held.id + 1));
        give_back(&world, client, held.lease, RETURN_MAPPED);
        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        mark_unusable(&world, held.block);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        expect_release(&world, held.block);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        unmap(&world, client, held.id);
        world_free(&world);
}

TESTS_MAIN("policy: driver state")
