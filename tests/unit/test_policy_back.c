/* Two processes of a tenant that want the same memory in turns: what one took from the other is not
 * taken back at once, if there is another way. */
#include "base/err.h"
#include "daemon/policy/scheduling/revocation.h"
#include "tests/unit/policy_world.h"

/* The client is granted the block of an idle lease of another one, which is told nothing. */
static struct held take_over(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct held held = {.lease = NULL};
        struct action action;

        ask(world, client, 7, n_bytes, world->now_ns + REVOCATION_OTHERS_NS);
        action = take(world, ACTION_GRANT);
        ck_assert_ptr_eq(action.client, client);
        held.lease = action.lease;
        held.block = action.block;
        held.id = lease_id(action.lease);
        return held;
}

START_TEST(where_there_is_room_both_get_a_block)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        ck_assert_ptr_eq(second.block, first.block);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, a, 1);
        ck_assert(!was_revoked(&world, b, second.lease));
        world_free(&world);
}
END_TEST

START_TEST(where_there_is_none_it_comes_back_after_a_while)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        expect_idle(&world);
        /* Nor by way of the driver, for another size. */
        ask(&world, a, 2, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        world.now_ns += REVOCATION_BACK_NS - 1;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        world.now_ns++;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}
END_TEST

START_TEST(who_is_out_of_time_takes_it_back)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, world.now_ns + 5);
        expect_idle(&world);
        world.now_ns += 5;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}
END_TEST

START_TEST(a_third_one_may_have_it)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        mark_idle(&world, b, second.lease);
        ck_assert_ptr_eq(take_over(&world, c, 16 * MIB).block, first.block);
        world_free(&world);
}
END_TEST

/* One that both map costs neither of them a call of the driver. */
START_TEST(what_is_mapped_still_goes_back_and_forth)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;
        struct policy_ask known = {
                .serial = 1, .n_bytes = 16 * MIB, .known_will_do = true, .deadline_ns = UINT64_MAX};
        struct action action;

        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        mark_idle(&world, b, second.lease);
        ask_with(&world, a, &known);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, first.block);
        ck_assert(action.known);
        world_free(&world);
}
END_TEST

START_TEST(a_limit_is_no_reason_either)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held first = hold(&world, a, 16 * MIB), second;

        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_TENANT, POLICY_EVERY_UID,
                                          LIMIT_DEVICE_BYTES, 16 * MIB, 0),
                         0);
        mark_idle(&world, a, first.lease);
        second = take_over(&world, b, 16 * MIB);
        unmap(&world, a, first.id);
        mark_idle(&world, b, second.lease);
        ask(&world, a, 1, 16 * MIB, UINT64_MAX);
        expect_idle(&world);
        world.now_ns += REVOCATION_BACK_NS;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, first.block);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                where_there_is_room_both_get_a_block,
                where_there_is_none_it_comes_back_after_a_while,
                who_is_out_of_time_takes_it_back,
                a_third_one_may_have_it,
                what_is_mapped_still_goes_back_and_forth,
                a_limit_is_no_reason_either,
        };

        return run_tests("policy: back and forth", tests, ARRAY_SIZE(tests));
}
