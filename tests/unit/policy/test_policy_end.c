/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that end, and what they leave: blocks in use, tenants with nothing but memory, and
 * bytes of an earlier daemon's blocks that clients declare. */
#include <stdio.h>

#include "base/err.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/report/listing.h"
#include "daemon/policy/state/walk_part.h"
#include "tests/unit/policy/policy_world.h"

enum sign { SIGN_EOF, SIGN_DEAD };

static bool tell(struct client *client, enum sign sign)
{
        bool is_gone;

        if (sign == SIGN_EOF)
                is_gone = policy_client_eof(world.policy, client, world.now_ns);
        else
                is_gone = policy_client_dead(world.policy, client, world.now_ns);
        policy_check(world.policy);
        return is_gone;
}

static void end(struct client *client)
{
        ck_assert(!tell(client, SIGN_EOF));
        ck_assert(tell(client, SIGN_DEAD));
}

static void expect_release_of(const struct held *held, bool may_be_used)
{
        struct block *block = take(ACTION_RELEASE).block;

        ck_assert_ptr_eq(block, held->block);
        ck_assert_int_eq(block_may_be_used(block), may_be_used);
        released(block);
}

/* The connection may be lost while the process goes on. */
POLICY_TEST(what_was_in_use_at_the_end_may_be_used_still, 100 * MIB, .to = 2)
{
        const enum sign first = _i ? SIGN_DEAD : SIGN_EOF;
        struct client *a = join(1);
        struct held busy = hold(a, 4 * MIB);
        struct held returned = cache(a, 6 * MIB, RETURN_MAPPED);
        struct held idle = hold_idle(a, 8 * MIB);

        ck_assert(!tell(a, first));
        expect_release_of(&busy, true);
        ck_assert_int_eq(policy_release_all(world.policy, join(1), 1, SCOPE_TENANT, 0), 0);
        expect_release_of(&returned, false);
        expect_release_of(&idle, false);
}

static int declare(struct client *client, uint32_t pool, uint64_t n_bytes)
{
        int r = policy_declare(world.policy, client, pool, n_bytes, world.now_ns);

        policy_check(world.policy);
        return r;
}

POLICY_TEST(declared_bytes_are_charged_and_not_reserved, 100 * MIB)
{
        struct client *client = join(1);
        struct held held;

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(client, 0, 20 * MIB), 0);
        held = hold(client, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 24 * MIB);
        ck_assert_uint_eq(client_declared(client, 0), 20 * MIB);
        ck_assert_uint_eq(stats().charged, 24 * MIB);
        ck_assert_uint_eq(stats().declared, 20 * MIB);
        expect_totals(4 * MIB, 0, 0);
        give_back(client, held.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(declare(client, 0, 0), 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ck_assert(!client_maps_anything(client));
}

POLICY_TEST(nobody_declares_more_than_it_said_it_held, 100 * MIB)
{
        struct client *client = join(1), *fresh = join(1);

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(client, 0, 31 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(client, 0, UINT64_MAX), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(client, 2, MIB), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(declare(client, 0, 20 * MIB), 0);
        ck_assert_int_eq(declare(client, 1, 11 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(client, 1, 10 * MIB), 0);
        ck_assert_int_eq(declare(client, 0, 10 * MIB), 0);
        ck_assert_uint_eq(client_declared(client, 0), 10 * MIB);
        ck_assert_int_eq(declare(fresh, 0, 1), GPUMEM_E_BAD_REQUEST);
}

/* What each ended client declared is believed, but the sum of all must not overflow. */
#define LARGEST (UINT64_C(1) << 60)

POLICY_TEST(no_sum_of_declarations_passes_what_can_be_counted, LARGEST)
{
        struct client *clients[9];
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++) {
                int r;

                clients[i] = join(1);
                client_set_held(clients[i], UINT64_MAX);
                ck_assert_int_eq(declare(clients[i], 0, LARGEST + 1), GPUMEM_E_BAD_REQUEST);
                r = declare(clients[i], 0, LARGEST);
                ck_assert(r == 0 || r == GPUMEM_E_TOO_MANY);
                n += r == 0;
                (void)policy_client_eof(world.policy, clients[i], world.now_ns);
        }
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_lt(n, 9);
        ck_assert_uint_eq(stats().declared, n * LARGEST);
        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
                ck_assert(policy_client_dead(world.policy, clients[i], world.now_ns));
        ck_assert_uint_eq(stats().declared, 0);
}

static void take_block(const struct block_listing *block, void *argument)
{
        *(struct block_listing *)argument = *block;
}

POLICY_TEST(a_block_is_dated_when_it_is_made_and_at_each_change, 100 * MIB)
{
        struct client *client = join(7);
        struct block_listing listed;
        struct held held;

        world.now_ns = 5000;
        held = hold(client, 4 * MIB);
        list_blocks(take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_LEASED);
        ck_assert_ptr_eq(listed.charged, client);
        ck_assert_uint_eq(listed.uid, 7);
        ck_assert_uint_eq(listed.lease_id, held.id);
        ck_assert_uint_eq(listed.since_ns, 5000);
        world.now_ns = 9000;
        give_back(client, held.lease, RETURN_UNMAPPED);
        list_blocks(take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_CACHED);
        ck_assert_ptr_null(listed.charged);
        ck_assert_uint_eq(listed.lease_id, 0);
        ck_assert_uint_eq(listed.made_ns, 5000);
        ck_assert_uint_eq(listed.since_ns, 9000);
}

#define UID   1
#define OTHER 2

/* All cached pinned memory may stay. */
static uint32_t add_pinned_memory(uint64_t max_bytes)
{
        const struct policy_pool pool = {
                .kind = POLICY_PINNED, .max_bytes = max_bytes, .capacity_bytes = max_bytes};
        uint32_t id;

        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), 0);
        return id;
}

static struct action must_take(enum action_kind kind)
{
        struct action action = policy_next_action(world.policy);

        ck_assert_int_eq(action.kind, kind);
        return action;
}

/* Like hold() and cache(), but without the checks, which visit every tenant: there are many. */
static struct lease *lease_one(struct client *client, uint32_t pool)
{
        const struct policy_ask wanted = {.pool = pool, .n_bytes = 2 * MIB};

        policy_lease(world.policy, client, &wanted, world.now_ns);
        policy_created(world.policy, must_take(ACTION_CREATE).block, 0, &world, world.now_ns);
        return must_take(ACTION_GRANT).lease;
}

static void must_return(struct client *client, const struct lease *lease)
{
        ck_assert_int_eq(
                policy_return(world.policy, client, lease_id(lease), RETURN_UNMAPPED, world.now_ns),
                0);
}

static struct block *leave_cached(struct client *client, uint32_t pool)
{
        struct lease *lease = lease_one(client, pool);
        struct block *block = lease_block(lease);

        must_return(client, lease);
        return block;
}

static void must_release(const struct block *block)
{
        struct action action = must_take(ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        policy_released(world.policy, action.block, world.now_ns);
}

static unsigned release_all_that_go(void)
{
        struct action action = policy_next_action(world.policy);
        unsigned n;

        for (n = 0; action.kind == ACTION_RELEASE; n++) {
                policy_released(world.policy, action.block, world.now_ns);
                action = policy_next_action(world.policy);
        }
        ck_assert_int_eq(action.kind, ACTION_NONE);
        return n;
}

/* In the user's nth container, where it has another uid. */
static struct client *join_nth(unsigned n)
{
        return join_in(UID, UID + n, n);
}

static void leave(struct client *client)
{
        ck_assert(!policy_client_eof(world.policy, client, world.now_ns));
        ck_assert(policy_client_dead(world.policy, client, world.now_ns));
}

POLICY_TEST(a_user_has_so_many_tenants_that_have_gone, 4 * MIB)
{
        static struct block *blocks[TENANTS_AN_OWNER + 2];
        const uint32_t pool = add_pinned_memory((TENANTS_AN_OWNER + 8) * 2 * MIB);
        struct client *client = join_nth(0);

        blocks[0] = leave_cached(client, pool);
        for (unsigned i = 1; i < TENANTS_AN_OWNER; i++) {
                client = join_nth(i);
                blocks[i] = leave_cached(client, pool);
                leave(client);
        }
        policy_check(world.policy);
        (void)must_take(ACTION_NONE);
        /* A tenant with a client makes no room, and another user's tenants need none. */
        client = join_in(OTHER, OTHER, 0);
        (void)must_take(ACTION_NONE);
        end(client);
        client = join_nth(7);
        (void)must_take(ACTION_NONE);
        end(client);
        client = join_nth(TENANTS_AN_OWNER);
        must_release(blocks[1]);
        (void)must_take(ACTION_NONE);
        end(client);
        client = join_nth(TENANTS_AN_OWNER + 1);
        (void)must_take(ACTION_NONE);
        (void)leave_cached(client, pool);
        end(client);
        client = join_nth(TENANTS_AN_OWNER + 2);
        must_release(blocks[2]);
        (void)must_take(ACTION_NONE);
}

/* Otherwise a new tenant's first step would take as long as an old one has blocks. */
POLICY_TEST(a_tenant_that_makes_room_loses_so_many_blocks_at_a_time, 4 * MIB)
{
        struct lease *leases[TENANTS_BLOCKS_A_TIME + 1];
        const uint32_t pool = add_pinned_memory((TENANTS_AN_OWNER + 80) * 2 * MIB);
        struct client *client = join_nth(0);

        for (unsigned i = 0; i < ARRAY_SIZE(leases); i++)
                leases[i] = lease_one(client, pool);
        for (unsigned i = 0; i < ARRAY_SIZE(leases); i++)
                must_return(client, leases[i]);
        leave(client);
        for (unsigned i = 1; i < TENANTS_AN_OWNER; i++) {
                client = join_nth(i);
                (void)leave_cached(client, pool);
                leave(client);
        }
        (void)join_nth(TENANTS_AN_OWNER);
        ck_assert_uint_eq(release_all_that_go(), TENANTS_BLOCKS_A_TIME);
        (void)join_nth(TENANTS_AN_OWNER + 1);
        ck_assert_uint_eq(release_all_that_go(), 1);
}

/* Some leases end before the first sign, and no request is served from then on. */
POLICY_TEST(leases_end_in_parts_before_the_first_sign, 32 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[3];

        for (unsigned i = 0; i < 3; i++)
                held[i] = hold(a, (4 + 2 * i) * MIB);
        ask(a, 9, 30 * MIB, UINT64_MAX);
        expect_idle();
        ck_assert(policy_client_drop_some(world.policy, a, 1, world.now_ns));
        policy_check(world.policy);
        expect_release(held[0].block);
        expect_idle();
        ck_assert_uint_eq(stats().n_waiting, 0);
        ck_assert(policy_client_drop_some(world.policy, a, 1, world.now_ns));
        expect_release(held[1].block);
        ck_assert(!policy_client_drop_some(world.policy, a, 2, world.now_ns));
        expect_release(held[2].block);
        expect_idle();
        expect_totals(0, 0, 18 * MIB);
        ck_assert(!tell(a, SIGN_EOF));
        expect_idle();
        ck_assert(tell(a, SIGN_DEAD));
        expect_totals(0, 0, 0);
        end(b);
}

/* After the first sign its mappings end in parts; who waits for the bytes gets them before the second. */
POLICY_TEST(mappings_end_in_parts_before_the_second_sign, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held[2];

        for (unsigned i = 0; i < 2; i++)
                held[i] = hold(a, 8 * MIB);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        ck_assert(!tell(a, SIGN_EOF));
        expect_release(held[0].block);
        expect_release(held[1].block);
        expect_idle();
        ck_assert(policy_client_unmap_some(world.policy, a, 1, world.now_ns));
        policy_check(world.policy);
        (void)expect_made(b, 1);
        expect_totals(8 * MIB, 0, 8 * MIB);
        ck_assert(!policy_client_unmap_some(world.policy, a, 1, world.now_ns));
        ck_assert(!policy_client_unmap_some(world.policy, a, 1, world.now_ns));
        expect_totals(8 * MIB, 0, 0);
        ck_assert(tell(a, SIGN_DEAD));
        end(b);
        policy_check(world.policy);
}

#define N_USED 32

/* Each takes the server a while. */
POLICY_TEST(blocks_of_a_client_that_ends_go_back_in_parts, N_USED * 2 * MIB)
{
        struct client *a = join(1);
        bool has_more = true;
        unsigned n_all = 0;

        for (unsigned i = 0; i < N_USED; i++)
                (void)hold(a, 2 * MIB);
        while (has_more) {
                struct action action;
                unsigned n = 0;

                has_more = policy_client_drop_some(world.policy, a, PART_ITEMS, world.now_ns);
                policy_check(world.policy);
                for (; (action = next_action()).kind != ACTION_NONE; n++)
                        ck_assert_int_eq(action.kind, ACTION_RELEASE);
                ck_assert_uint_le(n, PART_ITEMS / PART_RELEASE_ITEMS);
                n_all += n;
        }
        ck_assert_uint_eq(n_all, N_USED);
}

TESTS_MAIN("policy: end")
