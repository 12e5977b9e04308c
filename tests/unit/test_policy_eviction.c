/* SPDX-License-Identifier: Apache-2.0 */
/* Which cached blocks and which idle leases make room for a request: whose goes first, and what becomes of the bytes. */
#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "tests/unit/policy_world.h"

TEST(own_tenant_gives_first_and_the_oldest_first)
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

TEST(others_give_oldest_first_and_only_what_is_needed)
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

TEST(request_out_of_time_is_kept_while_bytes_come_back)
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

TEST(nothing_is_released_that_would_not_be_enough)
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

TEST(unmapped_blocks_are_preferred_to_mapped_ones)
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

TEST(mapped_blocks_go_only_for_those_who_wait)
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

TEST(unmapping_makes_a_cached_block_fit_to_go)
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

TEST(other_tenants_idle_block_lingers_until_it_is_unmapped)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 16 * MIB);

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 8 * MIB, 5000);
        expect_release(&world, held.block);
        expect_notice(&world, a, held.lease);
        expect_idle(&world);
        expect_totals(&world, 0, 0, 16 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 16 * MIB);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(block_bytes(take(&world, ACTION_CREATE).block), 8 * MIB);
        world_free(&world);
}

/* As it is stopped perhaps: its bytes are counted on for a while, then others' are taken. */
TEST(a_holder_that_does_not_answer_holds_nobody_up)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held late = hold(&world, a, 8 * MIB), other = hold(&world, c, 8 * MIB);

        mark_idle(&world, a, late.lease);
        mark_idle(&world, c, other.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_release(&world, late.block);
        expect_notice(&world, a, late.lease);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + UNMAP_TIMEOUT_NS);
        world.now_ns += UNMAP_TIMEOUT_NS - 1;
        policy_expire(world.policy, world.now_ns);
        expect_idle(&world);
        ck_assert_uint_eq(stats(&world).timed_out, 0);
        world.now_ns++;
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, other.block);
        expect_notice(&world, c, other.lease);
        ck_assert_uint_eq(stats(&world).timed_out, 8 * MIB);
        ck_assert_uint_eq(stats(&world).unresponsive, 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(a, 0), 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(c, 0), 0);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + UNMAP_TIMEOUT_NS);
        unmap(&world, c, other.id);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        (void)expect_grant(&world, b, 1);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        unmap(&world, a, late.id);
        ck_assert_uint_eq(stats(&world).timed_out, 0);
        ck_assert_uint_eq(client_unresponsive(a, 0), 0);
        world_free(&world);
}

static struct {
        const struct client *revoked, *unresponsive;
        uint64_t n_revoked_bytes, n_late_bytes;
} seen;

static void see_revoked(void *argument, const struct client *client, uint32_t pool,
                        uint64_t n_bytes)
{
        ck_assert_ptr_eq(argument, &seen);
        ck_assert_uint_eq(pool, 0);
        seen.revoked = client;
        seen.n_revoked_bytes += n_bytes;
}

static void see_unresponsive(void *argument, const struct client *client, uint32_t pool,
                             uint64_t n_bytes)
{
        ck_assert_ptr_eq(argument, &seen);
        ck_assert_uint_eq(pool, 0);
        seen.unresponsive = client;
        seen.n_late_bytes += n_bytes;
}

TEST(a_witness_is_told_of_revocations_and_unresponsive_clients)
{
        const struct policy_witness witness = {see_revoked, see_unresponsive, &seen};
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 8 * MIB);

        policy_set_witness(world.policy, &witness);
        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 8 * MIB, UINT64_MAX);
        expect_release(&world, held.block);
        expect_notice(&world, a, held.lease);
        ck_assert_ptr_eq(seen.revoked, a);
        ck_assert_uint_eq(seen.n_revoked_bytes, 8 * MIB);
        ck_assert_ptr_null(seen.unresponsive);
        world.now_ns += UNMAP_TIMEOUT_NS;
        policy_expire(world.policy, world.now_ns);
        ck_assert_ptr_eq(seen.unresponsive, a);
        ck_assert_uint_eq(seen.n_late_bytes, 8 * MIB);
        policy_set_witness(world.policy, NULL);
        unmap(&world, a, held.id);
        world_free(&world);
}

/* It gave the block back itself, and no notice tells it anything; or it was told, and has left since. */
TEST(a_client_that_cannot_answer_is_not_unresponsive)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *c = join(&world, 3);
        struct held told = hold(&world, a, 8 * MIB);

        (void)cache(&world, c, 8 * MIB, RETURN_MAPPED);
        mark_idle(&world, a, told.lease);
        ask(&world, b, 1, 16 * MIB, UINT64_MAX);
        while (next_action(&world).kind != ACTION_NONE)
                continue;
        world.now_ns += UNMAP_TIMEOUT_NS;
        policy_expire(world.policy, world.now_ns);
        policy_check(world.policy);
        ck_assert_uint_eq(stats(&world).timed_out, 16 * MIB);
        ck_assert_uint_eq(stats(&world).unresponsive, 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(a, 0), 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(c, 0), 0);
        ck_assert(!policy_client_eof(world.policy, a, world.now_ns));
        policy_check(world.policy);
        ck_assert_uint_eq(client_unresponsive(a, 0), 0);
        ck_assert_uint_eq(stats(&world).unresponsive, 0);
        ck_assert_uint_eq(stats(&world).timed_out, 16 * MIB);
        world_free(&world);
}

TEST(its_holders_death_is_as_good)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 16 * MIB);

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 8 * MIB, 5000);
        expect_release(&world, held.block);
        /* The notice was not taken: nobody is there to be told any more. */
        (void)policy_client_dead(world.policy, a, 0);
        policy_check(world.policy);
        expect_idle(&world);
        (void)policy_client_eof(world.policy, a, 0);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(who_does_not_wait_takes_nothing)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = hold(&world, a, 16 * MIB);

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 8 * MIB, 0);
        expect_refusal(&world, b, 1, GPUMEM_E_REFUSED);
        ck_assert(!was_revoked(&world, a, held.lease));
        world_free(&world);
}

/* Nothing would come back: neither of what is idle nor of what is cached then. */
TEST(what_stays_mapped_makes_no_room)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct policy_ask request = {
                .pool = 1, .serial = 1, .n_bytes = 64 * MIB, .keeps_mapped = true};
        struct held held;
        struct action action;

        ask_with(&world, a, &request);
        action = take(&world, ACTION_CREATE);
        created(&world, action.block, 0);
        held = (struct held){.lease = expect_grant(&world, a, 1), .block = action.block};
        held.id = lease_id(held.lease);
        mark_idle(&world, a, held.lease);
        request = (struct policy_ask){
                .pool = 1, .serial = 2, .n_bytes = 32 * MIB, .deadline_ns = 5000};
        ask_with(&world, a, &request);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, held.lease));
        ask_with(&world, b, &request);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, held.lease));
        request = (struct policy_ask){.pool = 1, .serial = 3, .n_bytes = 64 * MIB};
        ask_with(&world, b, &request);
        give_back(&world, b, expect_grant(&world, b, 3), RETURN_UNMAPPED);
        ck_assert(was_revoked(&world, a, held.lease));
        expect_idle(&world);
        unmap(&world, a, held.id);
        expect_release(&world, held.block);
        world_free(&world);
}

TEST(nothing_is_taken_that_would_not_be_enough)
{
        struct world world = world_new(16 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held idle = hold(&world, a, 8 * MIB), busy = hold(&world, a, 8 * MIB);

        mark_idle(&world, a, idle.lease);
        ask(&world, b, 1, 10 * MIB, 5000);
        expect_idle(&world);
        ck_assert(!was_revoked(&world, a, idle.lease));
        /* Nobody says so when it is: the server looks from time to time. */
        mark_idle(&world, a, busy.lease);
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, idle.block);
        expect_notice(&world, a, idle.lease);
        expect_release(&world, busy.block);
        expect_notice(&world, a, busy.lease);
        world_free(&world);
}

TEST(those_nearest_to_the_asker_go_first)
{
        struct world world = world_new(40 * MIB);
        struct client *a = join(&world, 1), *kin = join(&world, 1), *other = join(&world, 2);
        struct held others_idle = hold(&world, other, 8 * MIB);
        struct held others_cached = cache(&world, other, 8 * MIB, RETURN_MAPPED);
        struct held kins_idle = hold(&world, kin, 8 * MIB), own_idle = hold(&world, a, 8 * MIB);
        struct held own_cached = cache(&world, a, 8 * MIB, RETURN_MAPPED);
        const struct held *order[] = {&own_idle, &kins_idle, &own_cached, &others_cached,
                                      &others_idle};

        mark_idle(&world, other, others_idle.lease);
        mark_idle(&world, kin, kins_idle.lease);
        mark_idle(&world, a, own_idle.lease);
        for (uint32_t i = 0; i < ARRAY_SIZE(order); i++) {
                struct action next;

                /* No block serves it; what lingers already is counted on. */
                ask(&world, a, i, (i * 8 + 6) * MIB, UINT64_MAX);
                ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, order[i]->block);
                next = policy_next_action(world.policy);
                ck_assert_int_eq(next.kind, order[i] == &own_cached || order[i] == &others_cached
                                                    ? ACTION_NONE
                                                    : ACTION_NOTICE);
                policy_cancel(world.policy, a, i, 0);
                expect_refusal(&world, a, i, GPUMEM_E_CANCELLED);
                expect_idle(&world);
        }
        world_free(&world);
}

TEST(oldest_goes_first_and_use_makes_young)
{
        struct world world = world_new(12 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held[] = {hold(&world, a, 4 * MIB), hold(&world, a, 4 * MIB),
                              hold(&world, a, 4 * MIB)};

        /* The first one is seen in use. */
        ask(&world, b, 1, 2 * MIB, UINT64_MAX);
        expect_idle(&world);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                mark_idle(&world, a, held[i].lease);
        policy_expire(world.policy, world.now_ns);
        expect_release(&world, held[0].block);
        expect_notice(&world, a, held[0].lease);
        expect_idle(&world);
        world_free(&world);
}

TEST(revoked_leases_are_recalled_once_when_their_block_goes)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct held held = hold(&world, a, 8 * MIB);
        struct lease *lease;

        mark_idle(&world, a, held.lease);
        ask(&world, b, 1, 8 * MIB, 0);
        lease = expect_grant(&world, b, 1);
        expect_idle(&world);
        give_back(&world, b, lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_release_all(world.policy, b, 2, SCOPE_TENANT, 0), 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held.block);
        /* It has gone by itself: there is nothing to say. */
        unmap(&world, a, held.id);
        released(&world, held.block);
        ck_assert_uint_eq(take(&world, ACTION_FREED).n_bytes, 8 * MIB);
        expect_idle(&world);
        world_free(&world);
}

/* Nobody needs to keep a device's memory mapped: to say so keeps it from nobody, and beside no limit. */
TEST(of_a_device_nothing_stays_mapped)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct action action;

        for (uint32_t serial = 1; serial <= 2; serial++) {
                struct policy_ask request = {
                        .serial = serial, .n_bytes = serial * 2 * MIB, .keeps_mapped = true};

                ask_with(&world, a, &request);
                action = take(&world, ACTION_CREATE);
                created(&world, action.block, 0);
                give_back(&world, a, expect_grant(&world, a, serial), RETURN_MAPPED);
        }
        ck_assert_uint_eq(client_charged(a, 0), 6 * MIB);
        ask(&world, b, 1, 6 * MIB, 5000);
        action = take(&world, ACTION_RELEASE);
        released(&world, action.block);
        action = take(&world, ACTION_RELEASE);
        released(&world, action.block);
        ck_assert_uint_eq(client_charged(a, 0), 6 * MIB);
        world_free(&world);
}

TESTS_MAIN("policy: eviction")
