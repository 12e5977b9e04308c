/* SPDX-License-Identifier: Apache-2.0 */
/* Idle leases that make room for a request: clients that do not unmap them, that end, or that keep them mapped. */
#include "base/err.h"
#include "daemon/policy/aging.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/scheduling/evict_cached.h"
#include "tests/unit/policy/policy_world.h"

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

static void cache_unmapped(struct client *client, unsigned n, struct held *ret_held)
{
        cache_several(client, 2 * MIB, n, ret_held);
        for (unsigned i = 0; i < n; i++)
                unmap(client, ret_held[i].id);
}

POLICY_TEST(the_user_with_most_cached_gives_its_oldest_first, 16 * MIB)
{
        struct client *little = join(1), *much = join(2), *asker = join(3);
        struct held held[3];

        (void)cache(little, 2 * MIB, RETURN_UNMAPPED);
        cache_unmapped(much, ARRAY_SIZE(held), held);
        ask(asker, 1, 12 * MIB, 5000);
        expect_release(held[0].block);
        expect_release(held[1].block);
        (void)expect_made(asker, 1);
        expect_idle();
}

#define N_SPARED (EVICT_SPARE_BYTES / EVICT_SPARE_AN_OWNER)

/* However many owners there are: one that asks seldom finds its block again. */
POLICY_TEST(one_block_of_each_owner_is_spared, 1024 * MIB)
{
        struct client *much = join(1), *asker = join(2);
        struct held held[2];

        cache_unmapped(much, ARRAY_SIZE(held), held);
        for (unsigned i = 1; i < N_SPARED; i++)
                (void)cache(join_in(0, 0, i), 2 * MIB, RETURN_UNMAPPED);
        ask(asker, 1, 4 * MIB, 0);
        expect_release(held[0].block);
        (void)expect_made(asker, 1);
        for (unsigned i = 0; i < N_SPARED; i++)
                (void)cache(join_in(0, 0, N_SPARED + i), 2 * MIB, RETURN_UNMAPPED);
        ask(asker, 2, 4 * MIB, 0);
        (void)expect_made(asker, 2);
        expect_idle();
}

/* One block each, and yet more than another user has. */
POLICY_TEST(a_users_many_containers_give_before_a_user_with_less, 1024 * MIB)
{
        struct client *little = join(1), *asker = join(2);
        struct action action;
        struct held held[3];

        cache_unmapped(little, ARRAY_SIZE(held), held);
        for (unsigned i = 0; i <= N_SPARED - ARRAY_SIZE(held); i++)
                (void)cache(join_in(3, 0, i), 2 * MIB, RETURN_UNMAPPED);
        ask(asker, 1, 4 * MIB, 0);
        action = take(ACTION_RELEASE);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                ck_assert_ptr_ne(action.block, held[i].block);
        released(action.block);
        (void)expect_made(asker, 1);
        expect_idle();
}

/* Who takes and returns one block again and again does not lose it to those who have left theirs. */
POLICY_TEST(of_users_with_as_much_the_one_that_cached_first_gives, 16 * MIB)
{
        struct client *old = join(1), *busy = join(2), *asker = join(3);
        struct held left = cache(old, 2 * MIB, RETURN_UNMAPPED);

        (void)cache(busy, 2 * MIB, RETURN_UNMAPPED);
        ask(asker, 1, 14 * MIB, 5000);
        expect_release(left.block);
        (void)expect_made(asker, 1);
        expect_idle();
}

/* A large block takes from the one that has most only until another one has more. */
static void expect_from_both(struct client *much, struct client *more)
{
        struct client *asker = join(9);
        struct held rest[14], held[16];
        struct action action;
        unsigned n_of_much = 0, n_of_more = 0;

        cache_unmapped(much, ARRAY_SIZE(rest), rest);
        cache_unmapped(more, ARRAY_SIZE(held), held);
        ask(asker, 1, 32 * MIB, 5000);
        for (unsigned i = 0; i < 14; i++) {
                action = take(ACTION_RELEASE);
                for (unsigned k = 0; k < ARRAY_SIZE(rest); k++)
                        n_of_much += action.block == rest[k].block;
                for (unsigned k = 0; k < ARRAY_SIZE(held); k++)
                        n_of_more += action.block == held[k].block;
                released(action.block);
        }
        (void)expect_made(asker, 1);
        ck_assert_uint_gt(n_of_much, 4);
        ck_assert_uint_gt(n_of_more, 4);
}

POLICY_TEST(a_large_block_takes_from_several_users, 64 * MIB)
{
        struct client *much = join(1);

        expect_from_both(much, join(2));
}

POLICY_TEST(and_from_several_containers_of_one, 64 * MIB)
{
        struct client *much = join_in(3, 0, 1);

        expect_from_both(much, join_in(3, 0, 2));
}

POLICY_TEST(no_more_goes_than_is_needed, 16 * MIB)
{
        struct client *much = join(1), *asker = join(3);
        struct held of_much[3], of_other[2];

        cache_unmapped(much, ARRAY_SIZE(of_much), of_much);
        cache_unmapped(join(2), ARRAY_SIZE(of_other), of_other);
        ask(asker, 1, 14 * MIB, 5000);
        for (unsigned i = 0; i < 4; i++)
                released(take(ACTION_RELEASE).block);
        (void)expect_made(asker, 1);
        expect_idle();
}

/* What the admin has kept is spared, too. */
POLICY_TEST(a_new_block_leaves_what_the_pool_keeps, 1024 * MIB)
{
        struct client *asker = join(2);

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 2 * EVICT_SPARE_BYTES, UINT64_MAX),
                         0);
        (void)cache(join(1), 2 * EVICT_SPARE_BYTES, RETURN_UNMAPPED);
        ask(asker, 1, 4 * MIB, 0);
        (void)expect_made(asker, 1);
        expect_idle();
}

/* Among a user's containers, too, the one with most gives first. */
POLICY_TEST(of_a_users_containers_the_one_with_most_gives, 16 * MIB)
{
        struct client *asker = join(1);
        struct held several[3];

        (void)cache(join_in(3, 0, 1), 2 * MIB, RETURN_UNMAPPED);
        cache_unmapped(join_in(3, 0, 2), ARRAY_SIZE(several), several);
        (void)cache(join_in(3, 0, 3), 2 * MIB, RETURN_UNMAPPED);
        ask(asker, 1, 8 * MIB, 5000);
        expect_release(several[0].block);
        (void)expect_made(asker, 1);
        expect_idle();
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

/* The driver's work is divided by them. A walk meets the requests of all, in the step of one. */
POLICY_TEST(a_release_is_of_the_line_of_the_one_for_whom_it_is, 16 * MIB)
{
        struct client *much = join(1), *holder = join(2), *asker = join(3);
        struct held cached[2], held = hold(holder, 12 * MIB);
        struct action action;

        client_set_line(much, 1);
        client_set_line(holder, 2);
        client_set_line(asker, 3);
        cache_unmapped(much, ARRAY_SIZE(cached), cached);
        ask(asker, 1, 16 * MIB, 5000);
        expect_idle();
        give_back(holder, held.lease, RETURN_UNUSED);
        action = take(ACTION_RELEASE);
        ck_assert_ptr_eq(action.block, held.block);
        ck_assert_uint_eq(action.line, 0);
        for (unsigned i = 0; i < ARRAY_SIZE(cached); i++) {
                action = take(ACTION_RELEASE);
                ck_assert_ptr_eq(action.block, cached[i].block);
                ck_assert_uint_eq(action.line, 3);
                released(action.block);
        }
        released(held.block);
        (void)expect_made(asker, 1);
}

/* In whose step they are released says nothing of that. */
POLICY_TEST(a_release_to_a_lower_limit_is_of_the_node_s_line, 16 * MIB)
{
        struct client *much = join(1), *holder = join(2);
        struct held cached[2], idle = hold_idle(holder, 4 * MIB);
        struct action action;

        client_set_line(much, 1);
        client_set_line(holder, 2);
        policy_set_node_line(world.policy, 9);
        cache_unmapped(much, ARRAY_SIZE(cached), cached);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 2 * MIB, world.now_ns), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(cached); i++) {
                action = take(ACTION_RELEASE);
                ck_assert_ptr_eq(action.block, cached[i].block);
                ck_assert_uint_eq(action.line, 9);
                released(action.block);
        }
        action = take(ACTION_RELEASE);
        ck_assert_ptr_eq(action.block, idle.block);
        ck_assert_uint_eq(action.line, 9);
        (void)take(ACTION_NOTICE);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 16 * MIB, world.now_ns), 0);
        give_back(much, hold(much, 2 * MIB).lease, RETURN_UNUSED);
        ck_assert_uint_eq(take(ACTION_RELEASE).line, 0);
}

/* Fifteen of them are more than is spared, so that a new block makes one go back. */
#define BARRED_BYTES (6 * MIB)
_Static_assert(15 * BARRED_BYTES > EVICT_SPARE_BYTES, "one is to go back");

#define N_TAKEN_MAX 17

/* Caches what `mapper` holds after `taker` has taken it: it is mapped still, and not charged. */
static void cache_taken(struct client *mapper, struct client *taker, const struct held *held,
                        unsigned n)
{
        struct lease *leases[N_TAKEN_MAX];

        for (unsigned i = 0; i < n; i++)
                mark_idle(mapper, held[i].lease);
        for (unsigned i = 0; i < n; i++) {
                ask(taker, i, block_bytes(held[i].block), 0);
                leases[i] = expect_grant(taker, i);
        }
        for (unsigned i = 0; i < n; i++)
                give_back(taker, leases[i], RETURN_UNMAPPED);
}

/* Blocks that would bring the client that maps them over its limit are left, and behind so many none is looked for. */
static void expect_behind_barred(unsigned n_barred, bool is_found)
{
        struct client *mapper = join(1), *taker = join(1), *asker = join(2);
        struct held held[N_TAKEN_MAX], *other = &held[n_barred];

        for (unsigned i = 0; i < n_barred; i++)
                held[i] = hold(mapper, BARRED_BYTES);
        *other = hold(mapper, 2 * MIB);
        cache_taken(mapper, taker, held, n_barred + 1);
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 2 * MIB);
        ask(asker, 1, 2 * MIB, 0);
        if (is_found) {
                ck_assert_ptr_eq(take(ACTION_RELEASE).block, other->block);
                expect_notice(mapper, other->lease);
        }
        (void)take(ACTION_CREATE);
        expect_idle();
}

POLICY_TEST(blocks_that_a_limit_bars_are_passed_by, 4096 * MIB)
{
        expect_behind_barred(15, true);
}

POLICY_TEST(behind_sixteen_of_them_none_is_looked_for, 4096 * MIB)
{
        expect_behind_barred(16, false);
}

/* What one user maps does not end the search among what others have. */
POLICY_TEST(barred_blocks_of_one_spare_none_of_others, 4096 * MIB)
{
        struct client *mapper = join(1), *asker = join(2), *little = join(3), *taker = join(3);
        struct held barred[16], other = hold(little, 2 * MIB);

        for (unsigned i = 0; i < ARRAY_SIZE(barred); i++)
                barred[i] = hold(mapper, BARRED_BYTES);
        cache_taken(little, taker, &other, 1);
        cache_taken(mapper, join(1), barred, ARRAY_SIZE(barred));
        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 2 * MIB);
        ask(asker, 1, 2 * MIB, 0);
        ck_assert_ptr_eq(take(ACTION_RELEASE).block, other.block);
        expect_notice(little, other.lease);
        (void)take(ACTION_CREATE);
        expect_idle();
}

#define N_TENANTS 16

/* A search for a kind steps through owners, and tenants of one, that have some of it: there may be thousands of others, and
 * such a step is no item. */
POLICY_TEST(tenants_without_blocks_of_a_kind_are_in_no_search_for_it, N_TENANTS * 4 * MIB)
{
        const struct pool *pool = world.policy->pools[0];
        struct held held[N_TENANTS];
        struct client *clients[N_TENANTS];
        const struct owned *owned;

        for (unsigned i = 0; i < N_TENANTS; i++) {
                clients[i] = join_in(i / 2 ? 1 : 2, 10 + i, 1 + i);
                held[i] = cache(clients[i], 4 * MIB, RETURN_MAPPED);
        }
        owned = &clients[N_TENANTS - 1]->tenant->owner->owned[0];
        ck_assert_uint_eq(pool->by_cached[EVICT_MAPPED].n_sums, 2);
        ck_assert_uint_eq(pool->by_cached[EVICT_UNMAPPED].n_sums, 0);
        ck_assert_uint_eq(owned->by_cached[EVICT_MAPPED].n_sums, N_TENANTS - 2);
        unmap(clients[N_TENANTS - 1], held[N_TENANTS - 1].id);
        ck_assert_uint_eq(pool->by_cached[EVICT_UNMAPPED].n_sums, 1);
        ck_assert_uint_eq(owned->by_cached[EVICT_UNMAPPED].n_sums, 1);
        ck_assert_uint_eq(owned->by_cached[EVICT_MAPPED].n_sums, N_TENANTS - 3);
        ask(join(9), 1, 4 * MIB, UINT64_MAX);
        ck_assert_ptr_eq(take(ACTION_RELEASE).block, held[N_TENANTS - 1].block);
}

TESTS_MAIN("policy: evict_cached")
