/* A block that the client maps already comes back to it as it is. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

static struct action ask_known(struct world *world, struct client *client, uint32_t serial,
                               uint64_t n_bytes)
{
        struct policy_ask request = {.serial = serial, .n_bytes = n_bytes, .known_will_do = true};

        ask_with(world, client, &request);
        return next_action(world);
}

START_TEST(mapped_block_is_known_and_goes_before_a_better_fit)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held large = hold(&world, client, 18 * MIB);
        struct held small = cache(&world, client, 16 * MIB, RETURN_UNMAPPED);
        struct action action;

        give_back(&world, client, large.lease, RETURN_MAPPED);
        action = ask_known(&world, client, 1, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert(action.known);
        ck_assert_ptr_eq(action.block, large.block);
        ck_assert_uint_ne(lease_slot(action.lease), lease_slot(large.lease));
        /* Both leases stand until the old one is unmapped; then the new one goes on. */
        unmap(&world, client, large.id);
        ck_assert_uint_eq(client_charged(client, 0), 18 * MIB);
        give_back(&world, client, action.lease, RETURN_MAPPED);
        /* Without the flag it is the best fit. */
        ask(&world, client, 2, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, small.block);
        ck_assert(!action.known);
        world_free(&world);
}
END_TEST

START_TEST(without_the_flag_nothing_is_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct action action;

        ask(&world, client, 1, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}
END_TEST

static void ask_only_known(struct world *world, struct client *client, uint32_t serial,
                           uint64_t n_bytes, uint64_t deadline_ns)
{
        struct policy_ask request = {.serial = serial,
                                     .n_bytes = n_bytes,
                                     .known_will_do = true,
                                     .only_known = true,
                                     .deadline_ns = deadline_ns};

        ask_with(world, client, &request);
}

/* Neither what is cached, nor what is idle in others' hands, nor room for a new one. */
START_TEST(nothing_else_will_do)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, b, 16 * MIB);
        struct action action;

        (void)cache(&world, b, 16 * MIB, RETURN_UNMAPPED);
        mark_idle(&world, b, held.lease);
        ask_only_known(&world, a, 1, 16 * MIB, 0);
        action = take(&world, ACTION_REFUSE);
        ck_assert(action.only_known && action.outcome == GPUMEM_E_REFUSED);
        ask_only_known(&world, a, 2, 16 * MIB, UINT64_MAX - 1);
        expect_refusal(&world, a, 2, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(stats(&world).n_refusals, 0);
        ck_assert(!was_revoked(&world, b, held.lease));
        world_free(&world);
}
END_TEST

START_TEST(what_is_known_will_do)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct action action;

        ask_only_known(&world, client, 1, 16 * MIB, 0);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known);
        world_free(&world);
}
END_TEST

START_TEST(unmapped_before_the_answer_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held = cache(&world, client, 16 * MIB, RETURN_MAPPED);
        struct policy_ask request = {.serial = 1, .n_bytes = 16 * MIB, .known_will_do = true};
        struct action action;

        ask_with(&world, client, &request);
        unmap(&world, client, held.id);
        action = take(&world, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}
END_TEST

START_TEST(what_others_map_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 16 * MIB, RETURN_MAPPED);
        struct action action = ask_known(&world, b, 1, 16 * MIB);

        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(!action.known);
        world_free(&world);
}
END_TEST

START_TEST(too_small_or_too_large_is_not_known)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        (void)cache(&world, client, 14 * MIB, RETURN_MAPPED);
        (void)cache(&world, client, 20 * MIB, RETURN_MAPPED);
        ck_assert_int_eq(ask_known(&world, client, 1, 16 * MIB).kind, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(idle_in_anothers_hands_comes_back_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 18 * MIB, RETURN_MAPPED);
        struct action action;
        struct lease *lease;

        ask(&world, b, 1, 18 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        ck_assert_int_eq(ask_known(&world, a, 1, 16 * MIB).kind, ACTION_CREATE);
        mark_idle(&world, b, lease);
        action = ask_known(&world, a, 2, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known && was_revoked(&world, b, lease));
        ck_assert_uint_eq(client_charged(b, 0), 0);
        world_free(&world);
}
END_TEST

START_TEST(revoked_block_comes_back_known)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 16 * MIB);
        struct action action;
        struct lease *lease;

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 16 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        give_back(&world, b, lease, RETURN_UNMAPPED);
        action = ask_known(&world, a, 1, 16 * MIB);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert(action.known);
        /* The word of the old lease stays what it is, until it is unmapped. */
        ck_assert(was_revoked(&world, a, held.lease));
        unmap(&world, a, held.id);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                mapped_block_is_known_and_goes_before_a_better_fit,
                without_the_flag_nothing_is_known,
                nothing_else_will_do,
                what_is_known_will_do,
                unmapped_before_the_answer_is_not_known,
                what_others_map_is_not_known,
                too_small_or_too_large_is_not_known,
                idle_in_anothers_hands_comes_back_known,
                revoked_block_comes_back_known,
        };

        return run_tests("policy: known blocks", tests, ARRAY_SIZE(tests));
}
