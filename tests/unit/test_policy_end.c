/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that end, by two signs in either order, and what they leave behind: tenants of whom only memory is left,
 * and bytes of an earlier daemon's blocks that clients declare. */
#include <stdio.h>

#include "base/err.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/report/listing.h"
#include "proto/board.h"
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

TEST(what_was_in_use_at_the_end_may_be_used_still)
{
        what_was_in_use_may_be_used(SIGN_EOF);
        what_was_in_use_may_be_used(SIGN_DEAD);
}

TEST(what_the_dead_had_is_used_by_nobody)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1);
        struct held held = hold(&world, a, 4 * MIB);

        end(&world, a);
        expect_release_of(&world, &held, false);
        world_free(&world);
}

TEST(busy_block_lingers_from_eof_to_death)
{
        busy_block_lingers(SIGN_EOF);
}

TEST(busy_block_lingers_from_death_to_eof)
{
        busy_block_lingers(SIGN_DEAD);
}

TEST(release_may_come_after_both_signs)
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

TEST(returned_block_stays_cached_and_is_mapped_until_both_signs)
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

TEST(cached_blocks_outlive_the_tenants_last_client)
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

TEST(requests_are_withdrawn_without_an_answer)
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

TEST(actions_that_name_the_client_are_withdrawn)
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

TEST(block_in_the_making_is_cached_for_the_tenant)
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

TEST(charge_goes_to_the_next_that_maps_it)
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

TEST(older_mapper_ends_without_moving_the_charge)
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

TEST(shut_down_releases_unleased_blocks)
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

TEST(idle_leases_are_cached_at_the_first_sign)
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

TEST(idle_lease_of_the_dead_serves_who_waits)
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

TEST(no_lease_is_recalled_after_the_end)
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

TEST(lies_of_the_dead_are_not_believed)
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

static int declare(struct world *world, struct client *client, uint32_t pool, uint64_t n_bytes)
{
        int r = policy_declare(world->policy, client, pool, n_bytes, world->now_ns);

        policy_check(world->policy);
        return r;
}

TEST(declared_bytes_are_charged_and_not_reserved)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held;

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 20 * MIB), 0);
        held = hold(&world, client, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 24 * MIB);
        ck_assert_uint_eq(client_declared(client, 0), 20 * MIB);
        ck_assert_uint_eq(stats(&world).charged, 24 * MIB);
        ck_assert_uint_eq(stats(&world).declared, 20 * MIB);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(declare(&world, client, 0, 0), 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ck_assert(!client_maps_anything(client));
        world_free(&world);
}

TEST(nobody_declares_more_than_it_said_it_held)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *fresh = join(&world, 1);

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 31 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 0, UINT64_MAX), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 2, MIB), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(declare(&world, client, 0, 20 * MIB), 0);
        ck_assert_int_eq(declare(&world, client, 1, 11 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 1, 10 * MIB), 0);
        ck_assert_int_eq(declare(&world, client, 0, 10 * MIB), 0);
        ck_assert_uint_eq(client_declared(client, 0), 10 * MIB);
        ck_assert_int_eq(declare(&world, fresh, 0, 1), GPUMEM_E_BAD_REQUEST);
        world_free(&world);
}

/* Each of many that have left is believed, but all of them together can have no more than fits. */
TEST(no_sum_of_declarations_passes_what_can_be_counted)
{
        const uint64_t n_bytes = UINT64_C(1) << 60;
        struct world world = world_new(n_bytes);
        struct client *clients[9];
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++) {
                int r;

                clients[i] = join(&world, 1);
                client_set_held(clients[i], UINT64_MAX);
                ck_assert_int_eq(declare(&world, clients[i], 0, n_bytes + 1), GPUMEM_E_BAD_REQUEST);
                r = declare(&world, clients[i], 0, n_bytes);
                ck_assert(r == 0 || r == GPUMEM_E_TOO_MANY);
                n += r == 0;
                (void)policy_client_eof(world.policy, clients[i], world.now_ns);
        }
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_lt(n, 9);
        ck_assert_uint_eq(stats(&world).declared, n * n_bytes);
        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
                ck_assert(policy_client_dead(world.policy, clients[i], world.now_ns));
        ck_assert_uint_eq(stats(&world).declared, 0);
        world_free(&world);
}

/* They are mapped until the process has ended, like all else. */
TEST(declared_bytes_are_charged_until_both_signs)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        client_set_held(client, 8 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 8 * MIB), 0);
        ck_assert(!policy_client_eof(world.policy, client, world.now_ns));
        policy_check(world.policy);
        ck_assert(client_maps_anything(client));
        ck_assert_uint_eq(stats(&world).charged, 8 * MIB);
        ck_assert(policy_client_dead(world.policy, client, world.now_ns));
        policy_check(world.policy);
        ck_assert_uint_eq(stats(&world).charged, 0);
        ck_assert_uint_eq(stats(&world).declared, 0);
        world_free(&world);
}

static void take_block(const struct block_listing *block, void *argument)
{
        *(struct block_listing *)argument = *block;
}

TEST(a_block_is_dated_when_it_is_made_and_at_each_change)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 7);
        struct block_listing listed;
        struct held held;

        world.now_ns = 5000;
        held = hold(&world, client, 4 * MIB);
        policy_list_blocks(world.policy, 0, take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_LEASED);
        ck_assert_ptr_eq(listed.charged, client);
        ck_assert_uint_eq(listed.uid, 7);
        ck_assert_uint_eq(listed.lease_id, held.id);
        ck_assert_uint_eq(listed.since_ns, 5000);
        world.now_ns = 9000;
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        policy_list_blocks(world.policy, 0, take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_CACHED);
        ck_assert_ptr_null(listed.charged);
        ck_assert_uint_eq(listed.lease_id, 0);
        ck_assert_uint_eq(listed.made_ns, 5000);
        ck_assert_uint_eq(listed.since_ns, 9000);
        world_free(&world);
}

#define UID   1
#define OTHER 2

static struct client *join_in(struct world *world, uint32_t uid, unsigned n)
{
        struct tenant_key key = {.uid = uid};
        struct client *client;

        (void)snprintf(key.realm, sizeof(key.realm), "/container-%u", n);
        ck_assert_int_eq(policy_add_client(world->policy, &key, 1, NULL, NULL, &client), 0);
        return client;
}

/* Of pinned memory all that is cached may stay. */
static struct world world_of_pinned_memory(uint64_t max_bytes)
{
        const struct policy_pool pool = {
                .kind = POLICY_PINNED, .max_bytes = max_bytes, .capacity_bytes = max_bytes};
        struct world world = {.now_ns = 1000};
        uint32_t id;

        ck_assert_int_eq(policy_new(&world.policy), 0);
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), 0);
        return world;
}

static struct action must_take(struct world *world, enum action_kind kind)
{
        struct action action = policy_next_action(world->policy);

        ck_assert_int_eq(action.kind, kind);
        return action;
}

/* As cache() does, but for the checks: they look at every tenant, of which there are many. */
static struct block *leave_cached(struct world *world, struct client *client)
{
        const struct policy_ask wanted = {.n_bytes = 2 * MIB};
        struct block *block;
        struct lease *lease;

        policy_lease(world->policy, client, &wanted, world->now_ns);
        block = must_take(world, ACTION_CREATE).block;
        policy_created(world->policy, block, 0, world, world->now_ns);
        lease = must_take(world, ACTION_GRANT).lease;
        ck_assert_int_eq(policy_return(world->policy, client, lease_id(lease), RETURN_UNMAPPED,
                                       world->now_ns),
                         0);
        return block;
}

static void must_release(struct world *world, const struct block *block)
{
        struct action action = must_take(world, ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        policy_released(world->policy, action.block, world->now_ns);
}

TEST(a_user_has_so_many_tenants_that_have_gone)
{
        static struct block *blocks[TENANTS_A_USER + 2];
        struct world world = world_of_pinned_memory((TENANTS_A_USER + 8) * 2 * MIB);
        struct client *first = join_in(&world, UID, 0), *client;

        blocks[0] = leave_cached(&world, first);
        for (unsigned i = 1; i < TENANTS_A_USER; i++) {
                client = join_in(&world, UID, i);
                blocks[i] = leave_cached(&world, client);
                end(&world, client);
        }
        (void)must_take(&world, ACTION_NONE);
        /* One who is there makes no room, nor does another user take any. */
        client = join_in(&world, OTHER, 0);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, 7);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER);
        must_release(&world, blocks[1]);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER + 1);
        (void)must_take(&world, ACTION_NONE);
        (void)leave_cached(&world, client);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER + 2);
        must_release(&world, blocks[2]);
        (void)must_take(&world, ACTION_NONE);
        world_free(&world);
}

TESTS_MAIN("policy: end")
