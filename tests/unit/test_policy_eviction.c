/* Which cached blocks make room for a request. */
#include "base/err.h"
#include "tests/unit/policy_world.h"

START_TEST(own_tenant_gives_first_and_the_oldest_first)
{
        struct world world = world_new(20 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held of_b = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct held of_a[4];

        cache_several(&world, a, 4 * MIB, 4, of_a);
        for (unsigned i = 0; i < 4; i++)
                unmap(&world, a, of_a[i].id);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_release(&world, of_a[0].block);
        expect_release(&world, of_a[1].block);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 8 * MIB);
        expect_idle(&world);
        ask(&world, a, 2, 12 * MIB, 0);
        expect_release(&world, of_a[2].block);
        expect_release(&world, of_a[3].block);
        expect_release(&world, of_b.block);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 12 * MIB);
        expect_totals(&world, 20 * MIB, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(others_give_oldest_first_and_only_what_is_needed)
{
        struct world world = world_new(14 * MIB);
        struct client *b = join(&world, 2), *c = join(&world, 3), *a = join(&world, 1);
        struct held first = cache(&world, c, 4 * MIB, RETURN_UNMAPPED);
        struct held second = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct held third = cache(&world, c, 6 * MIB, RETURN_UNMAPPED);

        ask(&world, a, 1, 6 * MIB, 0);
        expect_release(&world, first.block);
        expect_release(&world, second.block);
        (void)take(&world, ACTION_CREATE);
        expect_idle(&world);
        expect_totals(&world, 6 * MIB, 6 * MIB, 0);
        ask(&world, c, 1, 6 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, third.block);
        world_free(&world);
}
END_TEST

START_TEST(request_out_of_time_is_kept_while_bytes_come_back)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, b, 8 * MIB, RETURN_UNMAPPED);
        struct block *block;

        ask(&world, a, 1, 8 * MIB, 0);
        block = take(&world, ACTION_RELEASE).block;
        ck_assert_ptr_eq(block, held.block);
        expect_totals(&world, 0, 0, 8 * MIB);
        ck_assert_uint_eq(stats(&world).charged, 0);
        /* No timer is needed, and none makes it worse. */
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        policy_expire(world.policy, world.now_ns + 100);
        expect_idle(&world);
        released(&world, block);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(nothing_is_released_that_would_not_be_enough)
{
        struct world world = world_new(10 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)hold(&world, b, 4 * MIB);
        (void)cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        ask(&world, a, 1, 8 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_REFUSED);
        expect_idle(&world);
        expect_totals(&world, 4 * MIB, 4 * MIB, 0);
        world_free(&world);
}
END_TEST

START_TEST(unmapped_blocks_are_preferred_to_mapped_ones)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held mapped = cache(&world, b, 4 * MIB, RETURN_MAPPED);
        struct held unmapped;

        ask(&world, b, 1, 2 * MIB, 0);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        unmapped.lease = expect_grant(&world, b, 1);
        give_back(&world, b, unmapped.lease, RETURN_UNMAPPED);
        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ck_assert_ptr_ne(take(&world, ACTION_RELEASE).block, mapped.block);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(mapped_blocks_go_only_for_those_who_wait)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[2];

        cache_several(&world, b, 4 * MIB, 2, held);
        ask(&world, a, 1, 4 * MIB, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_REFUSED);
        expect_totals(&world, 0, 8 * MIB, 0);
        ask(&world, a, 2, 4 * MIB, 5000);
        expect_release(&world, held[0].block);
        expect_idle(&world);
        /* It lingers at the cost of the one that maps it, as before, and is not released twice. */
        expect_totals(&world, 0, 4 * MIB, 4 * MIB);
        ck_assert_uint_eq(client_charged(b, 0), 8 * MIB);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        unmap(&world, b, held[0].id);
        (void)take(&world, ACTION_CREATE);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        unmap(&world, b, held[1].id);
        ck_assert_uint_eq(client_charged(b, 0), 0);
        world_free(&world);
}
END_TEST

START_TEST(unmapping_makes_a_cached_block_fit_to_go)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held leased = hold(&world, b, 4 * MIB);
        struct held cached = cache(&world, b, 4 * MIB, RETURN_MAPPED);

        /* Letting the mapped block go would not be enough, so it stays. */
        ask(&world, a, 1, 8 * MIB, 5000);
        expect_idle(&world);
        unmap(&world, b, cached.id);
        expect_idle(&world);
        give_back(&world, b, leased.lease, RETURN_UNMAPPED);
        expect_release(&world, cached.block);
        expect_release(&world, leased.block);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                own_tenant_gives_first_and_the_oldest_first,
                others_give_oldest_first_and_only_what_is_needed,
                request_out_of_time_is_kept_while_bytes_come_back,
                nothing_is_released_that_would_not_be_enough,
                unmapped_blocks_are_preferred_to_mapped_ones,
                mapped_blocks_go_only_for_those_who_wait,
                unmapping_makes_a_cached_block_fit_to_go,
        };

        return run_tests("policy: room", tests, ARRAY_SIZE(tests));
}
