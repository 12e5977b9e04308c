/* SPDX-License-Identifier: Apache-2.0 */
/* Giving the cache back to the driver. */
#include "base/err.h"
#include "daemon/policy/state/walk_part.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(bad_scope_and_pool_are_named, 8 * MIB)
{
        struct client *a = join(1);

        ck_assert_int_eq(policy_release_all(world.policy, a, 1, SCOPE_TENANT, 2), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(policy_release_all(world.policy, a, 1, (enum policy_scope)3, 0),
                         GPUMEM_E_BAD_REQUEST);
        expect_idle();
}

static bool is_of(const struct tenant_key *key, const void *uid)
{
        return key->uid == *(const uint32_t *)uid;
}

POLICY_TEST(a_tenant_that_is_chosen_gives_back_in_all_pools, 32 * MIB)
{
        struct client *a = join(1), *b = join(2), *admin = join(3);
        struct held of_a = cache(a, 4 * MIB, RETURN_UNMAPPED);
        struct held of_b = cache(b, 6 * MIB, RETURN_UNMAPPED);
        struct held idle = hold(b, 8 * MIB), busy = hold(b, 10 * MIB);
        struct policy_ask pinned = {.pool = 1, .serial = 1, .n_bytes = 2 * MIB};
        const uint32_t uid = 2;
        struct block *in_pinned;
        struct action freed;

        ask_with(b, &pinned);
        in_pinned = take(ACTION_CREATE).block;
        created(in_pinned, 0);
        give_back(b, expect_grant(b, 1), RETURN_UNMAPPED);
        mark_idle(b, idle.lease);
        ck_assert_int_eq(policy_reclaim(world.policy, admin, 7, is_of, &uid), 0);
        policy_check(world.policy);
        expect_release(of_b.block);
        expect_taken(b, &idle);
        expect_release(in_pinned);
        ck_assert(was_revoked(b, idle.lease));
        unmap(b, idle.id);
        freed = take(ACTION_FREED);
        ck_assert_ptr_eq(freed.client, admin);
        ck_assert_uint_eq(freed.serial, 7);
        ck_assert_uint_eq(freed.n_bytes, 16 * MIB);
        ck_assert_uint_eq(freed.n_blocks, 3);
        ck_assert(!was_revoked(b, busy.lease));
        ck_assert_uint_eq(stats().cached, 4 * MIB);
        (void)of_a;
        expect_idle();
}

/* A part in which so many blocks go back. */
static bool release_more(struct client *client, unsigned n_blocks)
{
        return policy_release_more(world.policy, client, n_blocks * (1 + PART_RELEASE_ITEMS));
}

/* The answer waits for the last part. */
POLICY_TEST(in_turns_blocks_are_looked_at_in_parts, 32 * MIB)
{
        struct client *a = join(1);
        struct held held[3];
        struct action freed;

        for (unsigned i = 0; i < 3; i++)
                held[i] = cache(a, (4 + 2 * i) * MIB, RETURN_UNMAPPED);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_release_all(world.policy, a, 7, SCOPE_TENANT, 0), 0);
        expect_idle();
        ck_assert(release_more(a, 2));
        policy_check(world.policy);
        expect_release(held[0].block);
        expect_release(held[1].block);
        expect_idle();
        ck_assert(!release_more(a, 2));
        expect_release(held[2].block);
        freed = take(ACTION_FREED);
        ck_assert_uint_eq(freed.serial, 7);
        ck_assert_uint_eq(freed.n_blocks, 3);
        ck_assert(!release_more(a, 2));
        expect_idle();
}

#define N_MANY 32

/* Each takes the server a while, whether it is cached or idle. Others are only looked at. */
POLICY_TEST(in_turns_few_blocks_go_back_in_a_part, 2 * N_MANY * 2 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[N_MANY / 2];
        bool has_more = true;
        unsigned n_all = 0;

        for (unsigned i = 0; i < N_MANY; i++)
                (void)hold(b, 2 * MIB);
        for (unsigned i = 0; i < N_MANY / 2; i++)
                (void)hold_idle(a, 2 * MIB);
        cache_several(a, 2 * MIB, N_MANY / 2, held);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_release_all(world.policy, a, 7, SCOPE_TENANT, 0), 0);
        for (unsigned n_parts = 0; has_more; n_parts++) {
                struct action action;
                unsigned n = 0;

                ck_assert_uint_lt(n_parts, 8);
                has_more = policy_release_more(world.policy, a, PART_ITEMS);
                policy_check(world.policy);
                while ((action = next_action()).kind != ACTION_NONE)
                        n += action.kind == ACTION_RELEASE;
                ck_assert_uint_le(n, PART_ITEMS / PART_RELEASE_ITEMS);
                n_all += n;
        }
        ck_assert_uint_eq(n_all, N_MANY);
}

POLICY_TEST(a_client_that_ends_in_between_gets_no_answer, 32 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[2];

        for (unsigned i = 0; i < 2; i++)
                held[i] = cache(b, (4 + 2 * i) * MIB, RETURN_UNMAPPED);
        policy_serve_in_turns(world.policy);
        ck_assert_int_eq(policy_release_all(world.policy, a, 7, SCOPE_TENANT, 0), 0);
        ck_assert(release_more(a, 1));
        expect_release(held[0].block);
        (void)policy_client_eof(world.policy, a, world.now_ns);
        (void)policy_client_dead(world.policy, a, world.now_ns);
        expect_idle();
        expect_totals(0, 6 * MIB, 0);
}

/* All that the other client had cached is on its way back for the first one's call. */
static void begin_to_release(struct client *asker, struct client *other, unsigned n,
                             struct held *held)
{
        cache_several(other, 4 * MIB, n, held);
        for (unsigned i = 0; i < n; i++)
                unmap(other, held[i].id);
        ck_assert_int_eq(policy_release_all(world.policy, asker, 7, SCOPE_TENANT, 0), 0);
        for (unsigned i = 0; i < n; i++)
                ck_assert_ptr_eq(take(ACTION_RELEASE).block, held[i].block);
}

/* As many blocks as there are may be on their way back for it. */
POLICY_TEST(a_client_that_ends_leaves_its_calls_in_parts, 32 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[4];

        begin_to_release(a, b, 4, held);
        ck_assert(policy_client_drop_some(world.policy, a, 2, world.now_ns));
        policy_check(world.policy);
        for (unsigned i = 0; i < 4; i++)
                released(held[i].block);
        expect_idle();
        ck_assert(!policy_client_drop_some(world.policy, a, 1, world.now_ns));
        expect_idle();
        (void)policy_client_eof(world.policy, a, world.now_ns);
        (void)policy_client_dead(world.policy, a, world.now_ns);
        expect_totals(0, 0, 0);
}

/* The answer is on its way when the client ends. */
POLICY_TEST(a_client_that_ends_before_its_answer_gets_none, 32 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[2];

        begin_to_release(a, b, 2, held);
        ck_assert_int_eq(policy_release_all(world.policy, a, 8, SCOPE_TENANT, 0), 0);
        for (unsigned i = 0; i < 2; i++)
                released(held[i].block);
        ck_assert(policy_client_drop_some(world.policy, a, 1, world.now_ns));
        expect_idle();
        ck_assert(!policy_client_drop_some(world.policy, a, 1, world.now_ns));
        (void)policy_client_eof(world.policy, a, world.now_ns);
        (void)policy_client_dead(world.policy, a, world.now_ns);
        expect_idle();
}

TESTS_MAIN("policy: release all")
