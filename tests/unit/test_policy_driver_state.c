/* A driver that does not answer, and one that has lost its device: what is served all the same, who is
 * refused and when, and that nothing of before is served after a loss. */
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

START_TEST(a_stalled_pool_serves_its_cache)
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
END_TEST

START_TEST(who_may_wait_waits_until_its_deadline)
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
END_TEST

/* Its block is made all the same, some time: for the cache. */
START_TEST(one_whose_block_hangs_is_refused_at_its_deadline)
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
END_TEST

START_TEST(a_lost_pool_refuses_everybody)
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
END_TEST

/* The driver may say yet that it has made it: that was before the loss, or may have been. */
START_TEST(one_whose_block_is_being_made_is_refused_when_the_device_is_lost)
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
END_TEST

START_TEST(what_was_leased_before_a_loss_is_not_cached_after_it)
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
END_TEST

/* Nobody is promised bytes that the driver has not taken. */
START_TEST(a_block_that_cannot_be_released_lingers_and_nobody_counts_on_it)
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
END_TEST

START_TEST(an_unknown_pool_has_no_driver_status)
{
        struct world world = world_new(8 * MIB);

        ck_assert_int_eq(policy_set_driver_status(world.policy, 2, DRIVER_LOST, 0),
                         GPUMEM_E_NO_POOL);
        world_free(&world);
}
END_TEST

START_TEST(a_call_that_takes_too_long_stalls_until_it_returns)
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
END_TEST

START_TEST(a_loss_lasts_until_a_call_succeeds)
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
END_TEST

START_TEST(both_signs_of_a_loss_must_go)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(driver_state_see_nvml(&state, true, 1));
        ck_assert(!driver_state_take_try(&state, 0, 9 * SECOND));
        ck_assert(!driver_state_note_result(&state, -ENODEV, 2));
        ck_assert(!driver_state_see_nvml(&state, false, 3));
        ck_assert(driver_state_note_result(&state, 0, 4));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
}
END_TEST

START_TEST(a_release_of_memory_from_before_a_loss_says_nothing)
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
END_TEST

START_TEST(what_is_not_taken_back_is_tried_less_and_less)
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
END_TEST

START_TEST(trials_that_leave_memory_behind_become_rare)
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
END_TEST

static void set_unreleasable(struct world *world, uint64_t n_bytes)
{
        ck_assert_int_eq(policy_set_unreleasable(world->policy, 0, n_bytes, world->now_ns), 0);
        policy_check(world->policy);
}

/* It takes room as any block does, and nobody is charged for it. */
START_TEST(what_is_no_block_lingers_too)
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
END_TEST

int main(void)
{
        const TTest *tests[] = {
                a_stalled_pool_serves_its_cache,
                who_may_wait_waits_until_its_deadline,
                one_whose_block_hangs_is_refused_at_its_deadline,
                a_lost_pool_refuses_everybody,
                one_whose_block_is_being_made_is_refused_when_the_device_is_lost,
                what_was_leased_before_a_loss_is_not_cached_after_it,
                a_block_that_cannot_be_released_lingers_and_nobody_counts_on_it,
                an_unknown_pool_has_no_driver_status,
                a_call_that_takes_too_long_stalls_until_it_returns,
                a_loss_lasts_until_a_call_succeeds,
                both_signs_of_a_loss_must_go,
                a_release_of_memory_from_before_a_loss_says_nothing,
                what_is_not_taken_back_is_tried_less_and_less,
                trials_that_leave_memory_behind_become_rare,
                what_is_no_block_lingers_too,
        };

        return run_tests("policy: driver state", tests, ARRAY_SIZE(tests));
}
