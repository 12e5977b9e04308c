/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "proto/board.h"
#include "tests/suite.h"
#include "tests/unit/policy/policy_world.h"

#include <limits.h>
#include <stdlib.h>

struct world world;

void world_begin(uint64_t max_bytes)
{
        struct policy_pool pools[] = {
                {.kind = POLICY_DEVICE, .max_bytes = max_bytes, .capacity_bytes = max_bytes},
                {.kind = POLICY_PINNED, .max_bytes = 64 * MIB, .capacity_bytes = 64 * MIB},
        };
        uint32_t id;

        world = (struct world){.now_ns = 1000};
        ck_assert_int_eq(policy_new(&world.policy), 0);
        for (uint32_t i = 0; i < ARRAY_SIZE(pools); i++) {
                ck_assert_int_eq(policy_add_pool(world.policy, &pools[i], &id), 0);
                ck_assert_uint_eq(id, i);
        }
}

void world_end(void)
{
        policy_check(world.policy);
        world.policy = policy_free(world.policy);
}

struct client *join(uint32_t uid)
{
        struct client *client;

        ck_assert_uint_lt(world.n_clients, WORLD_N_CLIENTS);
        ck_assert_int_eq(policy_add_client(world.policy, &(struct tenant_key){.uid = uid},
                                           &(struct tenant_key){.uid = uid}, WORLD_N_SLOTS,
                                           world.boards[world.n_clients].words, &world, &client),
                         0);
        world.boards[world.n_clients++].client = client;
        policy_check(world.policy);
        return client;
}

struct client *join_in(uint32_t owner_uid, uint32_t uid, unsigned container)
{
        struct tenant_key key = {.uid = uid}, owner_key = {.uid = owner_uid};
        struct client *client;

        (void)snprintf(key.realm, sizeof(key.realm), "/owner-%u/container-%u", owner_uid,
                       container);
        if (!owner_uid)
                memcpy(owner_key.realm, key.realm, sizeof(key.realm));
        ck_assert_int_eq(policy_add_client(world.policy, &key, &owner_key, WORLD_N_SLOTS, NULL,
                                           NULL, &client),
                         0);
        return client;
}

_Atomic uint64_t *word_of(const struct client *client, uint32_t slot)
{
        ck_assert_uint_lt(slot, WORLD_N_SLOTS);
        for (unsigned i = world.n_clients; i > 0; i--) {
                if (world.boards[i - 1].client == client)
                        return &world.boards[i - 1].words[slot];
        }
        ck_abort_msg("no such client");
}

void mark_idle(const struct client *client, const struct lease *lease)
{
        ck_assert(board_step(word_of(client, lease_slot(lease)), lease_id(lease), BOARD_BUSY,
                             BOARD_IDLE));
}

bool was_revoked(const struct client *client, const struct lease *lease)
{
        return board_is(word_of(client, lease_slot(lease)), lease_id(lease), BOARD_REVOKED);
}

void ask_with(struct client *client, const struct policy_ask *request)
{
        policy_lease(world.policy, client, request, world.now_ns);
        policy_check(world.policy);
}

void ask(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns)
{
        struct policy_ask request = {
                .serial = serial, .n_bytes = n_bytes, .deadline_ns = deadline_ns};

        ask_with(client, &request);
}

struct action next_action(void)
{
        struct action action;

        do
                action = policy_next_action(world.policy);
        while (action.kind == ACTION_MARK);
        return action;
}

struct action take(enum action_kind kind)
{
        struct action action = kind == ACTION_MARK ? policy_next_action(world.policy)
                                                   : next_action();

        ck_assert_int_eq(action.kind, kind);
        policy_check(world.policy);
        return action;
}

void expect_idle(void)
{
        (void)take(ACTION_NONE);
}

void expect_wait(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns)
{
        ask(client, serial, n_bytes, deadline_ns);
        expect_idle();
}

void expect_new(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns)
{
        ask(client, serial, n_bytes, deadline_ns);
        (void)expect_create(client, serial);
}

void expect_served(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns,
                   const struct block *block)
{
        struct action action;

        ask(client, serial, n_bytes, deadline_ns);
        action = take(ACTION_GRANT);
        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_ptr_eq(action.block, block);
}

void expect_refused(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns,
                    int outcome)
{
        ask(client, serial, n_bytes, deadline_ns);
        expect_refusal(client, serial, outcome);
}

void expect_refusal(const struct client *client, uint32_t serial, int outcome)
{
        struct action action = take(ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, outcome);
}

void expect_cancelled(struct client *client, uint32_t serial)
{
        ck_assert(policy_cancel(world.policy, client, serial, world.now_ns));
        expect_refusal(client, serial, GPUMEM_E_CANCELLED);
}

struct block *expect_create(const struct client *client, uint32_t serial)
{
        struct action action = take(ACTION_CREATE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        return action.block;
}

struct lease *expect_grant(const struct client *client, uint32_t serial)
{
        struct action action = take(ACTION_GRANT);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        return action.lease;
}

struct lease *expect_made(const struct client *client, uint32_t serial)
{
        created(expect_create(client, serial), 0);
        return expect_grant(client, serial);
}

void expect_notice(const struct client *client, const struct lease *lease)
{
        struct action action = take(ACTION_NOTICE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_ptr_eq(action.lease, lease);
}

void expect_release(const struct block *block)
{
        struct action action = take(ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        released(action.block);
}

void later(uint64_t n_ns)
{
        world.now_ns += n_ns;
        policy_expire(world.policy, world.now_ns);
        policy_check(world.policy);
}

void created(struct block *block, int result)
{
        policy_created(world.policy, block, result, result ? NULL : &world, world.now_ns);
        policy_check(world.policy);
}

void released(struct block *block)
{
        policy_released(world.policy, block, world.now_ns);
        policy_check(world.policy);
}

void give_back(struct client *client, const struct lease *lease, enum return_kind kind)
{
        ck_assert_int_eq(policy_return(world.policy, client, lease_id(lease), kind, world.now_ns),
                         0);
        policy_check(world.policy);
}

void unmap(struct client *client, uint64_t id)
{
        ck_assert_int_eq(policy_unmapped(world.policy, client, id, world.now_ns), 0);
        policy_check(world.policy);
}

void set_limit(enum limit_scope scope, uint32_t uid, enum limit_kind kind, uint64_t max)
{
        ck_assert_int_eq(policy_set_limit(world.policy, scope, uid, kind, max, world.now_ns), 0);
        policy_check(world.policy);
}

struct held hold_with(struct client *client, const struct policy_ask *request)
{
        struct held held;

        ask_with(client, request);
        held.lease = expect_made(client, request->serial);
        held.block = lease_block(held.lease);
        held.id = lease_id(held.lease);
        return held;
}

struct held hold(struct client *client, uint64_t n_bytes)
{
        return hold_with(client, &(const struct policy_ask){.n_bytes = n_bytes});
}

struct held hold_shareable(struct client *client, uint64_t n_bytes)
{
        return hold_with(client, &(const struct policy_ask){.n_bytes = n_bytes,
                                                            .properties = POLICY_SHAREABLE});
}

struct held hold_idle(struct client *client, uint64_t n_bytes)
{
        struct held held = hold(client, n_bytes);

        mark_idle(client, held.lease);
        return held;
}

void expect_taken(const struct client *client, const struct held *held)
{
        expect_release(held->block);
        expect_notice(client, held->lease);
}

struct held cache(struct client *client, uint64_t n_bytes, enum return_kind kind)
{
        struct held held;

        cache_several(client, n_bytes, 1, &held);
        if (kind == RETURN_UNMAPPED)
                unmap(client, held.id);
        return held;
}

void cache_several(struct client *client, uint64_t n_bytes, unsigned n, struct held *ret_held)
{
        for (unsigned i = 0; i < n; i++)
                ret_held[i] = hold(client, n_bytes);
        for (unsigned i = 0; i < n; i++)
                give_back(client, ret_held[i].lease, RETURN_MAPPED);
}

struct pool_stats stats(void)
{
        struct pool_stats result;

        ck_assert_int_eq(policy_pool_stats(world.policy, 0, &result), 0);
        ck_assert_uint_eq(result.reserved, result.leased + result.cached + result.lingering);
        return result;
}

void expect_totals(uint64_t leased, uint64_t cached, uint64_t lingering)
{
        struct pool_stats now = stats();

        ck_assert_uint_eq(now.leased, leased);
        ck_assert_uint_eq(now.cached, cached);
        ck_assert_uint_eq(now.lingering, lingering);
}

void list_blocks(void (*take_block)(const struct block_listing *block, void *argument),
                 void *argument)
{
        struct numbered_walk walk = {.next = 0};

        numbered_go_on(&walk, UINT_MAX);
        ck_assert(!policy_list_blocks(world.policy, &walk, take_block, argument));
}

void see_idle(void)
{
        struct numbered_walk walk = {.next = 0};

        numbered_go_on(&walk, UINT_MAX);
        while (policy_next_block(world.policy, &walk))
                continue;
}
