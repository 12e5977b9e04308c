/* Clients that end, by two signs in either order, and what they leave behind. */
#include "base/err.h"
#include "proto/board.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "tests/unit/policy_world.h"

enum sign { SIGN_EOF, SIGN_DEAD };

static bool tell(struct world *world, struct client *client, enum sign sign)
{
        bool is_gone;

        if (sign == SIGN_EOF)
                is_gone = policy_client_eof(world->policy, client, world->now_ns);
        else
                is_gone = policy_client_dead(world->policy, client, world->now_ns);
        policy_check(world->policy);
        return is_gone;
}

static enum sign other(enum sign sign)
{
        return sign == SIGN_EOF ? SIGN_DEAD : SIGN_EOF;
}

static void end(struct world *world, struct client *client)
{
        ck_assert(!tell(world, client, SIGN_EOF));
        ck_assert(tell(world, client, SIGN_DEAD));
}

static void busy_block_lingers(enum sign first)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        ck_assert(!tell(&world, a, first));
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        expect_release(&world, held.block);
        /* The daemon has released; the charge stays until both signs are there. */
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        ck_assert_uint_eq(stats(&world).charged, 4 * MIB);
        expect_totals(&world, 0, 0, 4 * MIB);
        expect_idle(&world);
        ck_assert(tell(&world, a, other(first)));
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 4 * MIB);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        world_free(&world);
}

static void expect_release_of(struct world *world, const struct held *held, bool may_be_used)
{
        struct block *block = take(world, ACTION_RELEASE).block;

        ck_assert_ptr_eq(block, held->block);
        ck_assert_int_eq(block_may_be_used(block), may_be_used);
        released(world, block);
}

/* Its connection may be lost, and its process go on. */
static void what_was_in_use_may_be_used(enum sign first)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held busy = hold(&world, a, 4 * MIB);
        struct held returned = cache(&world, a, 6 * MIB, RETURN_MAPPED);
        struct held idle = hold(&world, a, 8 * MIB);

        mark_idle(&world, a, idle.lease);
        ck_assert(!tell(&world, a, first));
        expect_release_of(&world, &busy, true);
        ck_assert_int_eq(policy_release_all(world.policy, join(&world, 1), 1, SCOPE_TENANT, 0), 0);
        expect_release_of(&world, &returned, false);
        expect_release_of(&world, &idle, false);
        world_free(&world);
}

START_TEST(what_was_in_use_at_the_end_may_be_used_still)
{
        what_was_in_use_may_be_used(SIGN_EOF);
        what_was_in_use_may_be_used(SIGN_DEAD);
}
END_TEST

START_TEST(what_the_dead_had_is_used_by_nobody)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        end(&world, a);
        expect_release_of(&world, &held, false);
        world_free(&world);
}
END_TEST

START_TEST(busy_block_lingers_from_eof_to_death)
{
        busy_block_lingers(SIGN_EOF);
}
END_TEST

START_TEST(busy_block_lingers_from_death_to_eof)
{
        busy_block_lingers(SIGN_DEAD);
}
END_TEST

START_TEST(release_may_come_after_both_signs)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 4 * MIB);

        end(&world, a);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(stats(&world).charged, 0);
        /* Now it is certain to come back, so that nobody need wait for others. */
        ask(&world, b, 1, 4 * MIB, 0);
        expect_release(&world, held.block);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(returned_block_stays_cached_and_is_mapped_until_both_signs)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);

        ck_assert(!tell(&world, a, SIGN_EOF));
        expect_idle(&world);
        expect_totals(&world, 0, 4 * MIB, 0);
        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        ck_assert(tell(&world, a, SIGN_DEAD));
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(cached_blocks_outlive_the_tenants_last_client)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b;
        struct held held = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);

        end(&world, a);
        expect_idle(&world);
        expect_totals(&world, 0, 4 * MIB, 0);
        b = join(&world, 1);
        ask(&world, b, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held.block);
        world_free(&world);
}
END_TEST

START_TEST(requests_are_withdrawn_without_an_answer)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, b, 4 * MIB);

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        ask(&world, a, 2, 6 * MIB, UINT64_MAX);
        ask(&world, a, 3, 4 * MIB, 0);
        ck_assert(!tell(&world, a, SIGN_EOF));
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).n_waiting, 0);
        ck_assert(tell(&world, a, SIGN_DEAD));
        give_back(&world, b, held.lease, RETURN_UNMAPPED);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(actions_that_name_the_client_are_withdrawn)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_release_all(world.policy, a, 1, SCOPE_TENANT, 1), 0);
        ask(&world, a, 2, 4 * MIB, 0); /* a grant */
        ask(&world, a, 3, 1, 0);       /* a refusal */
        ask(&world, a, 4, 2 * MIB, 0); /* a block to be made */
        ask(&world, b, 1, 2 * MIB, 0);
        ck_assert(!tell(&world, a, SIGN_EOF));
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 2 * MIB);
        ck_assert_uint_eq(client_charged(b, 0), 2 * MIB);
        expect_idle(&world);
        /* Nobody was told of the block, so it is as good as ever. */
        expect_totals(&world, 2 * MIB, 4 * MIB, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        world_free(&world);
}
END_TEST

START_TEST(block_in_the_making_is_cached_for_the_tenant)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b;
        struct block *block;

        ask(&world, a, 1, 4 * MIB, UINT64_MAX);
        block = take(&world, ACTION_CREATE).block;
        end(&world, a);
        expect_totals(&world, 0, 4 * MIB, 0);
        created(&world, block, 0);
        expect_idle(&world);
        b = join(&world, 2);
        ask(&world, b, 1, 4 * MIB, 0);
        expect_release(&world, block);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}
END_TEST

START_TEST(charge_goes_to_the_next_that_maps_it)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1), *c = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);

        ask(&world, b, 1, 4 * MIB, 0);
        give_back(&world, b, expect_grant(&world, b, 1), RETURN_MAPPED);
        ask(&world, c, 1, 4 * MIB, 0);
        (void)expect_grant(&world, c, 1);
        ck_assert(!tell(&world, c, SIGN_DEAD));
        expect_release(&world, held.block);
        ck_assert_uint_eq(client_charged(c, 0), 4 * MIB);
        ck_assert(tell(&world, c, SIGN_EOF));
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        end(&world, b);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        expect_totals(&world, 0, 0, 4 * MIB);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(older_mapper_ends_without_moving_the_charge)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);

        ask(&world, b, 1, 4 * MIB, 0);
        (void)expect_grant(&world, b, 1);
        end(&world, a);
        expect_totals(&world, 4 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        end(&world, b);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(shut_down_releases_unleased_blocks)
{
        struct world world = world_new(12 * MIB);
        struct client *a = join(&world, 1);
        struct held cached = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct held leased = hold(&world, a, 2 * MIB);
        struct block *block;

        ask(&world, a, 1, 6 * MIB, 0);
        block = take(&world, ACTION_CREATE).block;
        policy_cancel(world.policy, a, 1, 0);
        expect_refusal(&world, a, 1, GPUMEM_E_CANCELLED);
        policy_shut_down(world.policy);
        expect_release(&world, cached.block);
        expect_idle(&world);
        give_back(&world, a, leased.lease, RETURN_UNMAPPED);
        expect_release(&world, leased.block);
        created(&world, block, 0);
        expect_release(&world, block);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}
END_TEST

START_TEST(idle_leases_are_cached_at_the_first_sign)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held idle = hold(&world, a, 4 * MIB), busy = hold(&world, a, 8 * MIB);

        mark_idle(&world, a, idle.lease);
        (void)policy_client_eof(world.policy, a, 0);
        policy_check(world.policy);
        /* The process may live on, and sees that it has it no more. */
        ck_assert(was_revoked(&world, a, idle.lease));
        expect_totals(&world, 0, 4 * MIB, 8 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 8 * MIB);
        expect_release(&world, busy.block);
        ask(&world, b, 1, 4 * MIB, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, idle.block);
        (void)policy_client_dead(world.policy, a, 0);
        policy_check(world.policy);
        expect_totals(&world, 4 * MIB, 0, 0);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(idle_lease_of_the_dead_serves_who_waits)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        ask(&world, b, 1, 4 * MIB, UINT64_MAX);
        mark_idle(&world, a, held.lease);
        (void)policy_client_dead(world.policy, a, 0);
        ck_assert_ptr_eq(take(&world, ACTION_GRANT).block, held.block);
        expect_idle(&world);
        world_free(&world);
}
END_TEST

START_TEST(no_lease_is_recalled_after_the_end)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        mark_idle(&world, a, held.lease);
        (void)policy_client_eof(world.policy, a, 0);
        ck_assert_int_eq(policy_release_all(world.policy, b, 1, SCOPE_TENANT, 0), 0);
        expect_release(&world, held.block);
        expect_idle(&world);
        world.now_ns += UNMAP_TIMEOUT_NS;
        policy_expire(world.policy, world.now_ns);
        ck_assert_uint_eq(take(&world, ACTION_FREED).n_bytes, 0);
        expect_idle(&world);
        expect_totals(&world, 0, 0, 4 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        world_free(&world);
}
END_TEST

START_TEST(lies_of_the_dead_are_not_believed)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        atomic_store(word_of(&world, a, 0), board_word(held.id + 1, BOARD_IDLE));
        atomic_store(word_of(&world, a, 1), board_word(held.id, BOARD_IDLE));
        (void)policy_client_dead(world.policy, a, 0);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 4 * MIB);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                idle_leases_are_cached_at_the_first_sign,
                idle_lease_of_the_dead_serves_who_waits,
                no_lease_is_recalled_after_the_end,
                lies_of_the_dead_are_not_believed,
                what_was_in_use_at_the_end_may_be_used_still,
                what_the_dead_had_is_used_by_nobody,
                busy_block_lingers_from_eof_to_death,
                busy_block_lingers_from_death_to_eof,
                release_may_come_after_both_signs,
                returned_block_stays_cached_and_is_mapped_until_both_signs,
                cached_blocks_outlive_the_tenants_last_client,
                requests_are_withdrawn_without_an_answer,
                actions_that_name_the_client_are_withdrawn,
                block_in_the_making_is_cached_for_the_tenant,
                charge_goes_to_the_next_that_maps_it,
                older_mapper_ends_without_moving_the_charge,
                shut_down_releases_unleased_blocks,
        };

        return run_tests("policy: end", tests, ARRAY_SIZE(tests));
}
