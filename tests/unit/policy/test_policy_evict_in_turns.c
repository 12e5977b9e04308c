/* SPDX-License-Identifier: Apache-2.0 */
/* Cached blocks that go back in the parts of a walk, or before it, where the policy serves in turns. */
#include "daemon/policy/aging.h"
#include "daemon/policy/state/walk_part.h"
#include "tests/unit/policy/policy_world.h"

#define N_MANY 32

/* Their clients unmap them at once. Returns how many blocks go back in the next part. */
static unsigned release_in_a_part(struct client *holder)
{
        struct action action;
        unsigned n = 0;

        (void)policy_serve(world.policy, PART_ITEMS, world.now_ns);
        policy_check(world.policy);
        while ((action = next_action()).kind != ACTION_NONE) {
                if (action.kind == ACTION_NOTICE) {
                        unmap(holder, lease_id(action.lease));
                        continue;
                }
                ck_assert_int_eq(action.kind, ACTION_RELEASE);
                released(action.block);
                n++;
        }
        ck_assert_uint_le(n, PART_ITEMS / PART_RELEASE_ITEMS + 1);
        return n;
}

static void expect_all_in_parts(struct client *holder, struct client *asker, uint32_t serial)
{
        for (unsigned n = 0, n_now; n < N_MANY; n += n_now) {
                n_now = release_in_a_part(holder);
                ck_assert_uint_gt(n_now, 0);
        }
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        ck_assert_uint_eq(block_bytes(expect_create(asker, serial)), N_MANY * 2 * MIB);
}

/* Each takes the server a while. The request does not wait, and is not refused meanwhile. */
POLICY_TEST(in_turns_many_blocks_go_back_in_parts, N_MANY * 2 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[N_MANY];

        cache_several(a, 2 * MIB, N_MANY, held);
        for (unsigned i = 0; i < N_MANY; i++)
                unmap(a, held[i].id);
        policy_serve_in_turns(world.policy);
        ask(b, 1, N_MANY * 2 * MIB, 0);
        expect_all_in_parts(a, b, 1);
}

POLICY_TEST(in_turns_many_idle_leases_end_in_parts, N_MANY * 2 * MIB)
{
        struct client *a = join(1), *b = join(2);

        for (unsigned i = 0; i < N_MANY; i++)
                (void)hold_idle(a, 2 * MIB);
        policy_serve_in_turns(world.policy);
        ask(b, 1, N_MANY * 2 * MIB, UINT64_MAX);
        expect_all_in_parts(a, b, 1);
}

POLICY_TEST(in_turns_the_cache_is_trimmed_in_parts, 1 * GIB)
{
        struct client *a = join(1);
        struct held held[N_MANY];
        unsigned n;

        cache_several(a, 8 * MIB, N_MANY, held);
        for (unsigned i = 0; i < N_MANY; i++)
                unmap(a, held[i].id);
        policy_serve_in_turns(world.policy);
        ask(a, 1, 128 * MIB, 0);
        n = release_in_a_part(a);
        ck_assert_uint_ge(n, 128 / 8 / 2);
        (void)policy_serve(world.policy, PART_ITEMS, world.now_ns);
        for (; n < 128 / 8; n++)
                released(take(ACTION_RELEASE).block);
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        ck_assert_uint_eq(block_bytes(expect_create(a, 1)), 128 * MIB);
}

/* The next request finds what has gone back until then. */
POLICY_TEST(in_turns_one_that_is_withdrawn_sends_no_more_back, N_MANY * 2 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[N_MANY];
        unsigned n;

        cache_several(a, 2 * MIB, N_MANY, held);
        for (unsigned i = 0; i < N_MANY; i++)
                unmap(a, held[i].id);
        policy_serve_in_turns(world.policy);
        ask(b, 1, N_MANY * 2 * MIB, UINT64_MAX);
        n = release_in_a_part(a);
        ck_assert_uint_gt(n, 0);
        expect_cancelled(b, 1);
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        expect_idle();
        expect_totals(0, (N_MANY - n) * 2 * MIB, 0);
}

/* The pool's new limit leaves room for one of the blocks. Those that no lease has go first. */
POLICY_TEST(in_turns_a_lower_limit_evicts_in_parts, N_MANY * 2 * MIB)
{
        struct client *a = join(1);
        struct held held[N_MANY / 2];
        unsigned n = 0, n_now;

        for (unsigned i = 0; i < N_MANY / 2; i++)
                (void)hold_idle(a, 2 * MIB);
        cache_several(a, 2 * MIB, N_MANY / 2, held);
        for (unsigned i = 0; i < N_MANY / 2; i++)
                unmap(a, held[i].id);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 2 * MIB, world.now_ns), 0);
        policy_check(world.policy);
        expect_idle();
        for (; n < N_MANY - 1; n += n_now) {
                n_now = release_in_a_part(a);
                ck_assert_uint_gt(n_now, 0);
                ck_assert(n + n_now <= N_MANY / 2 ? stats().leased == N_MANY * MIB
                                                  : stats().cached == 0);
        }
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        expect_totals(2 * MIB, 0, 0);
}

/* Before the limit is kept, no block is made; then one more goes back for the request. */
POLICY_TEST(in_turns_requests_wait_while_a_lower_limit_evicts, N_MANY * 2 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[N_MANY];
        unsigned n = 0, n_now;

        cache_several(a, 2 * MIB, N_MANY, held);
        for (unsigned i = 0; i < N_MANY; i++)
                unmap(a, held[i].id);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 4 * MIB, world.now_ns), 0);
        ask(b, 1, 2 * MIB, UINT64_MAX);
        for (; n < N_MANY - 1; n += n_now) {
                n_now = release_in_a_part(a);
                ck_assert_uint_gt(n_now, 0);
        }
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        (void)expect_made(b, 1);
}

#define N_PASSED 600

/* They are mapped, by so many clients of the first one's tenant. */
static void cache_passed(struct client **clients, struct held *mapped)
{
        for (unsigned i = 0; i < N_PASSED / WORLD_N_SLOTS; i++)
                clients[i] = join(1);
        for (unsigned i = 0; i < N_PASSED; i++)
                mapped[i] = hold(clients[i / WORLD_N_SLOTS], 4 * MIB);
        for (unsigned i = 0; i < N_PASSED; i++)
                give_back(clients[i / WORLD_N_SLOTS], mapped[i].lease, RETURN_MAPPED);
}

/* Its tenant's blocks that are cached and mapped come before it. They are looked at in parts, each once. */
POLICY_TEST(in_turns_a_search_passes_blocks_in_parts, (N_PASSED + 1) * 4 * MIB)
{
        static struct held mapped[N_PASSED];
        struct client *clients[N_PASSED / WORLD_N_SLOTS];
        struct client *a = join(1);
        struct held held = hold(a, 4 * MIB);
        unsigned n_parts = 1;

        cache_passed(clients, mapped);
        give_back(a, held.lease, RETURN_UNMAPPED);
        /* No more goes back than must. */
        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 1024 * GIB, POLICY_KEEP_FOR_EVER),
                         0);
        policy_serve_in_turns(world.policy);
        ask(a, 1, 2 * MIB, 0);
        for (; !policy_serve(world.policy, PART_ITEMS, world.now_ns); n_parts++)
                continue;
        policy_check(world.policy);
        ck_assert_uint_ge(n_parts, N_PASSED / (PART_ITEMS * PART_LOOKS_AN_ITEM));
        ck_assert_uint_le(n_parts, 2 * N_PASSED / (PART_ITEMS * PART_LOOKS_AN_ITEM));
        ck_assert_ptr_eq(take(ACTION_RELEASE).block, held.block);
        released(held.block);
        while (!policy_serve(world.policy, PART_ITEMS, world.now_ns))
                continue;
        ck_assert_uint_eq(block_bytes(expect_create(a, 1)), 2 * MIB);
}

/* Takes the releases of the part. */
static unsigned take_releases(void)
{
        struct action action;
        unsigned n = 0;

        while ((action = next_action()).kind != ACTION_NONE) {
                if (action.kind != ACTION_RELEASE)
                        continue;
                released(action.block);
                n++;
        }
        return n;
}

/* Before each part its clients unmap one more, from the last on. Otherwise each of them would make a search pass all others
 * once more, while no request is served. */
POLICY_TEST(in_turns_blocks_that_are_unmapped_prolong_no_eviction, N_PASSED * 4 * MIB)
{
        static struct held mapped[N_PASSED];
        struct client *clients[N_PASSED / WORLD_N_SLOTS];
        unsigned n_parts = 0, n_gone = 0;

        cache_passed(clients, mapped);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_set_pool_max(world.policy, 0, 0, world.now_ns), 0);
        for (unsigned i = N_PASSED; n_gone < N_PASSED; n_parts++) {
                i--;
                unmap(clients[i / WORLD_N_SLOTS], mapped[i].id);
                (void)policy_serve(world.policy, PART_ITEMS, world.now_ns);
                policy_check(world.policy);
                n_gone += take_releases();
        }
        ck_assert_uint_le(n_parts, 2 * N_PASSED * PART_RELEASE_ITEMS / PART_ITEMS);
}

TESTS_MAIN("policy: evict in turns")
