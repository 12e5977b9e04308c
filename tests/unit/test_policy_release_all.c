/* SPDX-License-Identifier: Apache-2.0 */
/* Giving the cache back to the driver. */
#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "tests/unit/policy_world.h"

static void release_all(struct world *world, struct client *client, uint32_t serial,
                        enum policy_scope scope, uint32_t pool)
{
        ck_assert_int_eq(policy_release_all(world->policy, client, serial, scope, pool), 0);
        policy_check(world->policy);
}

static void expect_freed(struct world *world, const struct client *client, uint32_t serial,
                         uint64_t n_bytes, uint64_t n_blocks)
{
        struct action action = take(world, ACTION_FREED);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_uint_eq(action.n_bytes, n_bytes);
        ck_assert_uint_eq(action.n_blocks, n_blocks);
}

TEST(nothing_cached_is_answered_at_once)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);

        (void)cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        (void)hold(&world, a, 4 * MIB);
        release_all(&world, a, 3, SCOPE_TENANT, POLICY_ALL_POOLS);
        expect_freed(&world, a, 3, 0, 0);
        expect_idle(&world);
        world_free(&world);
}

TEST(bad_scope_and_pool_are_named)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);

        ck_assert_int_eq(policy_release_all(world.policy, a, 1, SCOPE_TENANT, 2), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(policy_release_all(world.policy, a, 1, (enum policy_scope)3, 0),
                         GPUMEM_E_BAD_REQUEST);
        expect_idle(&world);
        world_free(&world);
}

TEST(answer_comes_with_the_last_release)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);
        struct held held[2];

        cache_several(&world, a, 4 * MIB, 2, held);
        unmap(&world, a, held[0].id);
        unmap(&world, a, held[1].id);
        release_all(&world, a, 9, SCOPE_TENANT, 0);
        expect_totals(&world, 0, 0, 8 * MIB);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held[0].block);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, held[1].block);
        released(&world, held[1].block);
        expect_idle(&world);
        released(&world, held[0].block);
        expect_freed(&world, a, 9, 8 * MIB, 2);
        ck_assert_uint_eq(stats(&world).n_releases, 2);
        world_free(&world);
}

TEST(scope_says_whose_and_pool_says_where)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held of_a = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct held of_b = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);
        struct policy_ask pinned = {.pool = 1, .serial = 1, .n_bytes = 2 * MIB};
        struct block *in_pinned;

        ask_with(&world, b, &pinned);
        in_pinned = take(&world, ACTION_CREATE).block;
        created(&world, in_pinned, 0);
        give_back(&world, b, expect_grant(&world, b, 1), RETURN_UNMAPPED);
        release_all(&world, a, 1, SCOPE_TENANT, POLICY_ALL_POOLS);
        expect_release(&world, of_a.block);
        expect_freed(&world, a, 1, 4 * MIB, 1);
        release_all(&world, a, 2, SCOPE_NODE, 1);
        expect_release(&world, in_pinned);
        expect_freed(&world, a, 2, 2 * MIB, 1);
        release_all(&world, a, 3, SCOPE_NODE, POLICY_ALL_POOLS);
        expect_release(&world, of_b.block);
        expect_freed(&world, a, 3, 4 * MIB, 1);
        world_free(&world);
}

TEST(two_at_once_wait_for_their_own_blocks)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held first = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct held second = cache(&world, b, 4 * MIB, RETURN_UNMAPPED);

        release_all(&world, a, 1, SCOPE_TENANT, 0);
        release_all(&world, b, 2, SCOPE_NODE, 0);
        release_all(&world, b, 3, SCOPE_NODE, 0);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, first.block);
        ck_assert_ptr_eq(take(&world, ACTION_RELEASE).block, second.block);
        expect_freed(&world, b, 3, 0, 0);
        released(&world, second.block);
        expect_freed(&world, b, 2, 4 * MIB, 1);
        expect_idle(&world);
        released(&world, first.block);
        expect_freed(&world, a, 1, 4 * MIB, 1);
        world_free(&world);
}

TEST(mapped_block_lingers_until_unmapped)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);

        release_all(&world, a, 1, SCOPE_TENANT, 0);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        expect_release(&world, held.block);
        expect_idle(&world);
        ck_assert_uint_eq(policy_next_deadline(world.policy), world.now_ns + UNMAP_TIMEOUT_NS);
        world.now_ns += UNMAP_TIMEOUT_NS;
        policy_expire(world.policy, world.now_ns);
        expect_freed(&world, a, 1, 0, 0);
        expect_totals(&world, 0, 0, 4 * MIB);
        ask(&world, b, 1, 4 * MIB, 0);
        expect_refusal(&world, b, 1, GPUMEM_E_REFUSED);
        ask(&world, b, 2, 4 * MIB, UINT64_MAX);
        expect_idle(&world);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        expect_totals(&world, 4 * MIB, 0, 0);
        (void)take(&world, ACTION_CREATE);
        world_free(&world);
}

TEST(what_is_unmapped_soon_is_waited_for)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);
        struct held other = cache(&world, a, 2 * MIB, RETURN_UNMAPPED);

        release_all(&world, a, 1, SCOPE_TENANT, 0);
        expect_release(&world, held.block);
        expect_release(&world, other.block);
        expect_idle(&world);
        unmap(&world, a, held.id);
        expect_freed(&world, a, 1, 6 * MIB, 2);
        ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
        world_free(&world);
}

TEST(what_stays_registered_has_not_gone_back)
{
        struct world world = world_new(8 * MIB);
        struct client *a = join(&world, 1);
        struct policy_ask pinned = {.pool = 1, .serial = 1, .n_bytes = 2 * MIB};
        struct policy_ask kept = {.pool = 1, .serial = 2, .n_bytes = 4 * MIB, .keeps_mapped = true};
        struct block *of_pinned, *of_kept;
        const struct lease *lease;

        ask_with(&world, a, &pinned);
        of_pinned = take(&world, ACTION_CREATE).block;
        created(&world, of_pinned, 0);
        give_back(&world, a, expect_grant(&world, a, 1), RETURN_UNMAPPED);
        ask_with(&world, a, &kept);
        of_kept = take(&world, ACTION_CREATE).block;
        created(&world, of_kept, 0);
        lease = expect_grant(&world, a, 2);
        give_back(&world, a, lease, RETURN_MAPPED);
        release_all(&world, a, 3, SCOPE_TENANT, POLICY_ALL_POOLS);
        expect_release(&world, of_pinned);
        expect_release(&world, of_kept);
        expect_freed(&world, a, 3, 2 * MIB, 1);
        unmap(&world, a, lease_id(lease));
        expect_idle(&world);
        world_free(&world);
}

TEST(unmapped_before_the_release_comes_back_with_it)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_MAPPED);

        release_all(&world, a, 1, SCOPE_TENANT, 0);
        unmap(&world, a, held.id);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        expect_totals(&world, 0, 0, 4 * MIB);
        expect_release(&world, held.block);
        expect_totals(&world, 0, 0, 0);
        expect_freed(&world, a, 1, 4 * MIB, 1);
        world_free(&world);
}

TEST(asker_that_ends_is_not_answered)
{
        struct world world = world_new(4 * MIB);
        struct client *a = join(&world, 1);
        struct held held = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);

        release_all(&world, a, 1, SCOPE_TENANT, 0);
        ck_assert(!policy_client_eof(world.policy, a, 0));
        ck_assert(policy_client_dead(world.policy, a, 0));
        expect_release(&world, held.block);
        expect_idle(&world);
        expect_totals(&world, 0, 0, 0);
        world_free(&world);
}

static bool is_of(const struct tenant_key *key, const void *uid)
{
        return key->uid == *(const uint32_t *)uid;
}

TEST(a_tenant_that_is_chosen_gives_back_in_all_pools)
{
        struct world world = world_new(32 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 2), *admin = join(&world, 3);
        struct held of_a = cache(&world, a, 4 * MIB, RETURN_UNMAPPED);
        struct held of_b = cache(&world, b, 6 * MIB, RETURN_UNMAPPED);
        struct held idle = hold(&world, b, 8 * MIB), busy = hold(&world, b, 10 * MIB);
        struct policy_ask pinned = {.pool = 1, .serial = 1, .n_bytes = 2 * MIB};
        const uint32_t uid = 2;
        struct block *in_pinned;
        uint64_t n_blocks;

        ask_with(&world, b, &pinned);
        in_pinned = take(&world, ACTION_CREATE).block;
        created(&world, in_pinned, 0);
        give_back(&world, b, expect_grant(&world, b, 1), RETURN_UNMAPPED);
        mark_idle(&world, b, idle.lease);
        ck_assert_int_eq(policy_reclaim(world.policy, admin, 7, is_of, &uid, &n_blocks), 0);
        ck_assert_uint_eq(n_blocks, 3);
        policy_check(world.policy);
        expect_release(&world, of_b.block);
        expect_release(&world, in_pinned);
        expect_release(&world, idle.block);
        expect_notice(&world, b, idle.lease);
        ck_assert(was_revoked(&world, b, idle.lease));
        unmap(&world, b, idle.id);
        expect_freed(&world, admin, 7, 16 * MIB, 3);
        ck_assert(!was_revoked(&world, b, busy.lease));
        ck_assert_uint_eq(stats(&world).cached, 4 * MIB);
        (void)of_a;
        expect_idle(&world);
        world_free(&world);
}

TESTS_MAIN("policy: release all")
