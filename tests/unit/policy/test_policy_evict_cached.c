/* SPDX-License-Identifier: Apache-2.0 */
/* Which cached blocks and idle leases make room for a request: the order of their owners, and the fate of
 * their bytes. */
#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(own_tenant_gives_first_and_the_oldest_first, 20 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held of_b = cache(b, 4 * MIB, RETURN_UNMAPPED);
        struct held of_a[4];

        cache_several(a, 4 * MIB, 4, of_a);
        for (unsigned i = 0; i < 4; i++)
                unmap(a, of_a[i].id);
        ask(a, 1, 8 * MIB, 0);
        expect_release(of_a[0].block);
        expect_release(of_a[1].block);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 8 * MIB);
        expect_idle();
        ask(a, 2, 12 * MIB, 0);
        expect_release(of_a[2].block);
        expect_release(of_a[3].block);
        expect_release(of_b.block);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 12 * MIB);
        expect_totals(20 * MIB, 0, 0);
}

POLICY_TEST(mapped_blocks_go_only_for_those_who_wait, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[2];

        cache_several(b, 4 * MIB, 2, held);
        expect_refused(a, 1, 4 * MIB, 0, GPUMEM_E_REFUSED);
        expect_totals(0, 8 * MIB, 0);
        ask(a, 2, 4 * MIB, 5000);
        expect_release(held[0].block);
        expect_idle();
        /* It lingers, charged as before to the client that maps it, and is not released twice. */
        expect_totals(0, 4 * MIB, 4 * MIB);
        ck_assert_uint_eq(client_charged(b, 0), 8 * MIB);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        unmap(b, held[0].id);
        (void)take(ACTION_CREATE);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        unmap(b, held[1].id);
        ck_assert_uint_eq(client_charged(b, 0), 0);
}

POLICY_TEST(other_tenants_idle_block_lingers_until_it_is_unmapped, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold_idle(a, 16 * MIB);

        ask(b, 1, 8 * MIB, 5000);
        expect_taken(a, &held);
        expect_idle();
        expect_totals(0, 0, 16 * MIB);
        ck_assert_uint_eq(client_charged(a, 0), 16 * MIB);
        unmap(a, held.id);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 8 * MIB);
}

/* Its client may be stopped: requests count on its bytes for a while, and then take others. */
POLICY_TEST(a_holder_that_does_not_answer_holds_nobody_up, 16 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        struct held late = hold_idle(a, 8 * MIB), other = hold_idle(c, 8 * MIB);

        ask(b, 1, 8 * MIB, UINT64_MAX);
        expect_taken(a, &late);
        expect_idle();
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + UNMAP_TIMEOUT_NS);
        later(UNMAP_TIMEOUT_NS - 1);
        expect_idle();
        ck_assert_uint_eq(stats().timed_out, 0);
        later(1);
        expect_taken(c, &other);
        ck_assert_uint_eq(stats().timed_out, 8 * MIB);
        ck_assert_uint_eq(stats().unresponsive, 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(a, 0), 8 * MIB);
        ck_assert_uint_eq(client_unresponsive(c, 0), 0);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + UNMAP_TIMEOUT_NS);
        unmap(c, other.id);
        (void)expect_made(b, 1);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        unmap(a, late.id);
        ck_assert_uint_eq(stats().timed_out, 0);
        ck_assert_uint_eq(client_unresponsive(a, 0), 0);
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

POLICY_TEST(a_witness_is_told_of_revocations_and_unresponsive_clients, 8 * MIB)
{
        const struct policy_witness witness = {see_revoked, see_unresponsive, &seen};
        struct client *a = join(1), *b = join(2);
        struct held held = hold(a, 8 * MIB);

        policy_set_witness(world.policy, &witness);
        mark_idle(a, held.lease);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        expect_taken(a, &held);
        ck_assert_ptr_eq(seen.revoked, a);
        ck_assert_uint_eq(seen.n_revoked_bytes, 8 * MIB);
        ck_assert_ptr_null(seen.unresponsive);
        later(UNMAP_TIMEOUT_NS);
        ck_assert_ptr_eq(seen.unresponsive, a);
        ck_assert_uint_eq(seen.n_late_bytes, 8 * MIB);
        policy_set_witness(world.policy, NULL);
        unmap(a, held.id);
}

POLICY_TEST(its_holders_death_is_as_good, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold_idle(a, 16 * MIB);

        ask(b, 1, 8 * MIB, 5000);
        expect_release(held.block);
        /* The notice was not taken: its client has ended. */
        (void)policy_client_dead(world.policy, a, 0);
        policy_check(world.policy);
        expect_idle();
        (void)policy_client_eof(world.policy, a, 0);
        (void)take(ACTION_CREATE);
}

/* Nothing would come back, neither from idle nor from cached blocks. */
POLICY_TEST(what_stays_mapped_makes_no_room, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct policy_ask request = {
                .pool = 1, .serial = 1, .n_bytes = 64 * MIB, .keeps_mapped = true};
        struct held held = hold_with(a, &request);

        mark_idle(a, held.lease);
        request = (struct policy_ask){
                .pool = 1, .serial = 2, .n_bytes = 32 * MIB, .deadline_ns = 5000};
        ask_with(a, &request);
        expect_idle();
        ck_assert(!was_revoked(a, held.lease));
        ask_with(b, &request);
        expect_idle();
        ck_assert(!was_revoked(a, held.lease));
        request = (struct policy_ask){.pool = 1, .serial = 3, .n_bytes = 64 * MIB};
        ask_with(b, &request);
        give_back(b, expect_grant(b, 3), RETURN_UNMAPPED);
        ck_assert(was_revoked(a, held.lease));
        expect_idle();
        unmap(a, held.id);
        expect_release(held.block);
}

POLICY_TEST(those_nearest_to_the_asker_go_first, 40 * MIB)
{
        struct client *a = join(1), *kin = join(1), *other = join(2);
        struct held others_idle = hold(other, 8 * MIB);
        struct held others_cached = cache(other, 8 * MIB, RETURN_MAPPED);
        struct held kins_idle = hold(kin, 8 * MIB), own_idle = hold(a, 8 * MIB);
        struct held own_cached = cache(a, 8 * MIB, RETURN_MAPPED);
        const struct held *order[] = {&own_idle, &kins_idle, &own_cached, &others_cached,
                                      &others_idle};

        mark_idle(other, others_idle.lease);
        mark_idle(kin, kins_idle.lease);
        mark_idle(a, own_idle.lease);
        for (uint32_t i = 0; i < ARRAY_SIZE(order); i++) {
                struct action next;

                /* No block serves it; requests count on what lingers already. */
                ask(a, i, (i * 8 + 6) * MIB, UINT64_MAX);
                ck_assert_ptr_eq(take(ACTION_RELEASE).block, order[i]->block);
                next = policy_next_action(world.policy);
                ck_assert_int_eq(next.kind, order[i] == &own_cached || order[i] == &others_cached
                                                    ? ACTION_NONE
                                                    : ACTION_NOTICE);
                expect_cancelled(a, i);
                expect_idle();
        }
}

POLICY_TEST(revoked_leases_are_recalled_once_when_their_block_goes, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 8 * MIB);
        struct lease *lease;

        mark_idle(a, held.lease);
        ask(b, 1, 8 * MIB, 0);
        lease = expect_grant(b, 1);
        expect_idle();
        give_back(b, lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_release_all(world.policy, b, 2, SCOPE_TENANT, 0), 0);
        ck_assert_ptr_eq(take(ACTION_RELEASE).block, held.block);
        /* It has ended by itself, so no notice is needed. */
        unmap(a, held.id);
        released(held.block);
        ck_assert_uint_eq(take(ACTION_FREED).n_bytes, 8 * MIB);
        expect_idle();
}

TESTS_MAIN("policy: evict_cached")
