/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/board.h"
#include "tests/suite.h"
#include "tests/unit/policy_world.h"

#include <stdlib.h>

struct world world_new(uint64_t max_bytes)
{
        struct policy_pool pools[] = {
                {.kind = POLICY_DEVICE, .max_bytes = max_bytes, .capacity_bytes = max_bytes},
                {.kind = POLICY_PINNED, .max_bytes = 64 * MIB, .capacity_bytes = 64 * MIB},
        };
        struct world world = {.now_ns = 1000};
        uint32_t id;

        ck_assert_int_eq(policy_new(&world.policy), 0);
        for (uint32_t i = 0; i < 2; i++) {
                ck_assert_int_eq(policy_add_pool(world.policy, &pools[i], &id), 0);
                ck_assert_uint_eq(id, i);
        }
        return world;
}

void world_free(struct world *world)
{
        policy_check(world->policy);
        world->policy = policy_free(world->policy);
}

struct client *join(struct world *world, uint32_t uid)
{
        struct client *client;

        ck_assert_uint_lt(world->n_clients, WORLD_N_CLIENTS);
        ck_assert_int_eq(policy_add_client(world->policy, &(struct tenant_key){.uid = uid},
                                           WORLD_N_SLOTS, world->boards[world->n_clients].words,
                                           world, &client),
                         0);
        world->boards[world->n_clients++].client = client;
        policy_check(world->policy);
        return client;
}

_Atomic uint64_t *word_of(struct world *world, const struct client *client, uint32_t slot)
{
        ck_assert_uint_lt(slot, WORLD_N_SLOTS);
        for (unsigned i = world->n_clients; i > 0; i--) {
                if (world->boards[i - 1].client == client)
                        return &world->boards[i - 1].words[slot];
        }
        ck_abort_msg("no such client");
}

void mark_idle(struct world *world, const struct client *client, const struct lease *lease)
{
        ck_assert(board_step(word_of(world, client, lease_slot(lease)), lease_id(lease), BOARD_BUSY,
                             BOARD_IDLE));
}

bool was_revoked(struct world *world, const struct client *client, const struct lease *lease)
{
        return board_is(word_of(world, client, lease_slot(lease)), lease_id(lease), BOARD_REVOKED);
}

void ask_with(struct world *world, struct client *client, const struct policy_ask *request)
{
        policy_lease(world->policy, client, request, world->now_ns);
        policy_check(world->policy);
}

void ask(struct world *world, struct client *client, uint32_t serial, uint64_t n_bytes,
         uint64_t deadline_ns)
{
        struct policy_ask request = {
                .serial = serial, .n_bytes = n_bytes, .deadline_ns = deadline_ns};

        ask_with(world, client, &request);
}

struct action next_action(struct world *world)
{
        struct action action;

        do
                action = policy_next_action(world->policy);
        while (action.kind == ACTION_MARK);
        return action;
}

struct action take(struct world *world, enum action_kind kind)
{
        struct action action = kind == ACTION_MARK ? policy_next_action(world->policy)
                                                   : next_action(world);

        ck_assert_int_eq(action.kind, kind);
        policy_check(world->policy);
        return action;
}

void expect_idle(struct world *world)
{
        (void)take(world, ACTION_NONE);
}

void expect_refusal(struct world *world, const struct client *client, uint32_t serial, int outcome)
{
        struct action action = take(world, ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, outcome);
}

struct lease *expect_grant(struct world *world, const struct client *client, uint32_t serial)
{
        struct action action = take(world, ACTION_GRANT);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        return action.lease;
}

void expect_notice(struct world *world, const struct client *client, const struct lease *lease)
{
        struct action action = take(world, ACTION_NOTICE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_ptr_eq(action.lease, lease);
}

void expect_release(struct world *world, const struct block *block)
{
        struct action action = take(world, ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        released(world, action.block);
}

void created(struct world *world, struct block *block, int result)
{
        policy_created(world->policy, block, result, result ? NULL : world, world->now_ns);
        policy_check(world->policy);
}

void released(struct world *world, struct block *block)
{
        policy_released(world->policy, block, world->now_ns);
        policy_check(world->policy);
}

void give_back(struct world *world, struct client *client, const struct lease *lease,
               enum return_kind kind)
{
        ck_assert_int_eq(policy_return(world->policy, client, lease_id(lease), kind, world->now_ns),
                         0);
        policy_check(world->policy);
}

void unmap(struct world *world, struct client *client, uint64_t id)
{
        ck_assert_int_eq(policy_unmapped(world->policy, client, id, world->now_ns), 0);
        policy_check(world->policy);
}

struct held hold(struct world *world, struct client *client, uint64_t n_bytes)
{
        struct held held;

        ask(world, client, 0, n_bytes, 0);
        held.block = take(world, ACTION_CREATE).block;
        created(world, held.block, 0);
        held.lease = expect_grant(world, client, 0);
        held.id = lease_id(held.lease);
        return held;
}

struct held cache(struct world *world, struct client *client, uint64_t n_bytes,
                  enum return_kind kind)
{
        struct held held;

        cache_several(world, client, n_bytes, 1, &held);
        if (kind == RETURN_UNMAPPED)
                unmap(world, client, held.id);
        return held;
}

void cache_several(struct world *world, struct client *client, uint64_t n_bytes, unsigned n,
                   struct held *ret_held)
{
        for (unsigned i = 0; i < n; i++)
                ret_held[i] = hold(world, client, n_bytes);
        for (unsigned i = 0; i < n; i++)
                give_back(world, client, ret_held[i].lease, RETURN_MAPPED);
}

struct pool_stats stats(const struct world *world)
{
        struct pool_stats result;

        ck_assert_int_eq(policy_pool_stats(world->policy, 0, &result), 0);
        ck_assert_uint_eq(result.reserved, result.leased + result.cached + result.lingering);
        return result;
}

void expect_totals(const struct world *world, uint64_t leased, uint64_t cached, uint64_t lingering)
{
        struct pool_stats now = stats(world);

        ck_assert_uint_eq(now.leased, leased);
        ck_assert_uint_eq(now.cached, cached);
        ck_assert_uint_eq(now.lingering, lingering);
}
