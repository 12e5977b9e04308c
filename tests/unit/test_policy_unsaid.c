/* Blocks that are given back by clients which do not say that they keep them mapped, nor that they unmapped
 * them: who is charged. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

#define PINNED 1

static void set_limit(struct world *world, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world->policy, LIMIT_OF_CLIENT, POLICY_EVERY_UID,
                                          LIMIT_PINNED_BYTES, max, world->now_ns),
                         0);
}

/* Who does not say that it keeps them mapped is charged for them all the same. */
START_TEST(no_more_is_mapped_than_the_limit_whatever_is_said)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        uint64_t n_mapped = 0;

        set_limit(&world, 16 * MIB);
        for (uint64_t n_bytes = 2 * MIB; n_bytes <= 14 * MIB; n_bytes += 2 * MIB) {
                struct policy_ask request = {
                        .pool = PINNED, .serial = 5, .n_bytes = n_bytes, .n_most_bytes = n_bytes};
                struct action action;

                ask_with(&world, a, &request);
                action = next_action(&world);
                if (action.kind != ACTION_CREATE)
                        break;
                created(&world, action.block, 0);
                give_back(&world, a, expect_grant(&world, a, 5), RETURN_MAPPED);
                n_mapped += n_bytes;
        }
        ck_assert_uint_eq(n_mapped, 12 * MIB);
        world_free(&world);
}
END_TEST

static struct held cache_pinned(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct policy_ask request = {.pool = PINNED, .serial = 5, .n_bytes = n_bytes};
        struct held held;

        ask_with(world, client, &request);
        held.block = take(world, ACTION_CREATE).block;
        created(world, held.block, 0);
        held.lease = expect_grant(world, client, 5);
        held.id = lease_id(held.lease);
        give_back(world, client, held.lease, RETURN_MAPPED);
        return held;
}

/* As one that is to be unmapped at once is: it is had again beside the limit, and another when it is. */
START_TEST(what_is_about_to_be_unmapped_is_charged_until_then)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        struct lease *lease;
        struct held held;

        set_limit(&world, 8 * MIB);
        held = cache_pinned(&world, a, 8 * MIB);
        ck_assert_uint_eq(client_charged(a, PINNED), 8 * MIB);
        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        ck_assert_ptr_eq(lease_block(lease), held.block);
        unmap(&world, a, held.id);
        give_back(&world, a, lease, RETURN_MAPPED);
        again.serial = 2;
        again.n_bytes = 4 * MIB;
        again.deadline_ns = 5000;
        ask_with(&world, a, &again);
        expect_idle(&world);
        unmap(&world, a, lease_id(lease));
        ck_assert_uint_eq(take(&world, ACTION_CREATE).serial, 2);
        ck_assert_uint_eq(client_charged(a, PINNED), 4 * MIB);
        world_free(&world);
}
END_TEST

/* It was not asked to unmap it yet; but what it gave back before it has not unmapped either. */
START_TEST(revoked_block_is_charged_when_it_is_released)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct lease *lease, *other;
        struct held held = cache_pinned(&world, a, 8 * MIB);

        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        unmap(&world, a, held.id);
        mark_idle(&world, a, lease);
        again.known_will_do = false;
        ask_with(&world, b, &again);
        other = expect_grant(&world, b, 1);
        give_back(&world, b, other, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(a, PINNED) + client_charged(b, PINNED), 0);
        ck_assert_int_eq(policy_set_pool_max(world.policy, PINNED, 2 * MIB, world.now_ns), 0);
        expect_release(&world, held.block);
        ck_assert_uint_eq(client_charged(a, PINNED), 8 * MIB);
        world_free(&world);
}
END_TEST

/* The idle lease on it is not the only one: to revoke that is no relief. */
START_TEST(what_would_be_charged_still_is_not_taken_for_a_limit)
{
        struct policy_ask again = {
                .pool = PINNED, .serial = 1, .n_bytes = 8 * MIB, .known_will_do = true};
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1);
        struct lease *lease;

        set_limit(&world, 8 * MIB);
        (void)cache_pinned(&world, a, 8 * MIB);
        ask_with(&world, a, &again);
        lease = expect_grant(&world, a, 1);
        mark_idle(&world, a, lease);
        again.serial = 2;
        again.n_bytes = 4 * MIB;
        ask_with(&world, a, &again);
        expect_refusal(&world, a, 2, GPUMEM_E_LIMIT);
        ck_assert(!was_revoked(&world, a, lease));
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                no_more_is_mapped_than_the_limit_whatever_is_said,
                what_is_about_to_be_unmapped_is_charged_until_then,
                revoked_block_is_charged_when_it_is_released,
                what_would_be_charged_still_is_not_taken_for_a_limit,
        };

        return run_tests("policy: what is given back and mapped", tests, ARRAY_SIZE(tests));
}
