/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does not answer, or has lost its device: when it counts as such, and what it does not take back. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/driver_state.h"
#include "tests/unit/policy/policy_world.h"

#define SECOND UINT64_C(1000000000)

POLICY_TEST(an_unknown_pool_has_no_driver_status, 8 * MIB)
{
        ck_assert_int_eq(policy_set_driver_status(world.policy, 2, DRIVER_LOST, 0),
                         GPUMEM_E_NO_POOL);
}

TEST(a_call_that_takes_too_long_stalls_until_it_returns)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(!driver_state_see_call(&state, 0, 1));
        ck_assert(driver_state_see_call(&state, 1, 6));
        ck_assert_int_eq(state.status, DRIVER_STALLED);
        ck_assert_msg(state.since_ns == 1, "it has been silent since the call began");
        ck_assert(!driver_state_see_call(&state, 1, 7));
        ck_assert(driver_state_see_call(&state, 0, 8));
        ck_assert_int_eq(state.status, DRIVER_SERVES);
        ck_assert_uint_eq(state.since_ns, 8);
}

TEST(a_loss_lasts_until_a_call_succeeds)
{
        struct driver_state state = {.status = DRIVER_SERVES};

        ck_assert(!driver_state_note_result(&state, -EIO, 1));
        ck_assert(!driver_state_take_try(&state, 0, 9 * SECOND));
        ck_assert(driver_state_note_result(&state, -ENODEV, 1));
        ck_assert_int_eq(state.status, DRIVER_LOST);
        ck_assert(!driver_state_note_result(&state, -EIO, 2));
        ck_assert(!driver_state_see_call(&state, 2, 3));
        ck_assert(!driver_state_see_call(&state, 0, 4));
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

static void set_unreleasable(uint64_t n_bytes)
{
        ck_assert_int_eq(policy_set_unreleasable(world.policy, 0, n_bytes, world.now_ns), 0);
        policy_check(world.policy);
}

/* It takes room like a block, and no client is charged for it. */
POLICY_TEST(what_is_no_block_lingers_too, 8 * MIB)
{
        struct client *client = join(1);

        ask(client, 1, 8 * MIB, 5000);
        set_unreleasable(8 * MIB);
        created(take(ACTION_CREATE).block, -EIO);
        expect_refusal(client, 1, -EIO);
        expect_totals(0, 0, 8 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        expect_wait(client, 2, 4 * MIB, 5000);
        set_unreleasable(4 * MIB);
        (void)expect_made(client, 2);
        expect_totals(4 * MIB, 0, 4 * MIB);
        set_unreleasable(0);
        ck_assert_int_eq(policy_set_unreleasable(world.policy, 2, MIB, 0), GPUMEM_E_NO_POOL);
}

POLICY_TEST(a_lease_is_told_by_its_client_only, 100 * MIB)
{
        struct client *client = join(1), *sibling = join(1);
        struct held held = hold(client, 4 * MIB);

        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        ck_assert_ptr_null(policy_leased_block(sibling, held.id));
        ck_assert_ptr_null(policy_leased_block(client, held.id + 1));
        give_back(client, held.lease, RETURN_MAPPED);
        ck_assert_ptr_eq(policy_leased_block(client, held.id), held.block);
        policy_mark_unusable(world.policy, held.block, world.now_ns);
        policy_check(world.policy);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        expect_release(held.block);
        ck_assert_ptr_null(policy_leased_block(client, held.id));
        unmap(client, held.id);
}

TESTS_MAIN("policy: driver state")
