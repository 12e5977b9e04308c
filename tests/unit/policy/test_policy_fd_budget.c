/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon with few fds: which blocks need one, and which requests wait for one. */
#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

#define MANY_BYTES (1024 * MIB)
#define N_MAX      10

/* How many of them one tenant alone may have. */
#define N_ALONE 8

/* The daemon has files for few blocks only. */
static void fill(struct client *client, unsigned n, struct held *ret_held)
{
        policy_set_max_blocks(world.policy, N_MAX);
        for (unsigned i = 0; i < n; i++)
                ret_held[i] = hold(client, 4 * MIB);
}

static void expect_too_many(const struct client *client, uint32_t serial)
{
        struct action action = take(ACTION_REFUSE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.serial, serial);
        ck_assert_int_eq(action.outcome, GPUMEM_E_TOO_MANY);
        ck_assert(action.of_blocks);
}

POLICY_TEST(a_waiting_request_is_served_when_an_fd_is_closed, MANY_BYTES)
{
        struct client *a = join(1), *b = join(2);
        struct held held[N_ALONE], other[N_MAX - N_ALONE];

        fill(a, N_ALONE, held);
        fill(b, N_MAX - N_ALONE, other);
        expect_wait(b, 1, 8 * MIB, 5000);
        ck_assert_uint_eq(policy_next_deadline(world.policy), 5000);
        give_back(a, held[0].lease, RETURN_UNMAPPED);
        expect_release(held[0].block);
        (void)expect_made(b, 1);
        expect_idle();
        expect_wait(b, 2, 8 * MIB, 6000);
        policy_expire(world.policy, 6000);
        expect_too_many(b, 2);
}

/* A block that the driver does not take back has no open file either. */
POLICY_TEST(what_does_not_go_has_no_fd, MANY_BYTES)
{
        struct client *a = join(1);
        struct held held[N_ALONE];

        fill(a, N_ALONE, held);
        give_back(a, held[0].lease, RETURN_UNMAPPED);
        ask(a, 1, 8 * MIB, 0);
        policy_not_released(world.policy, take(ACTION_RELEASE).block, world.now_ns);
        (void)expect_made(a, 1);
}

/* Of 32 two are kept. */
POLICY_TEST(tenants_that_come_in_turn_leave_a_block_for_others, MANY_BYTES)
{
        struct client *first = join(1), *second = join(2), *others[2] = {join(3), join(4)};

        policy_set_max_blocks(world.policy, 32);
        for (unsigned i = 0; i < 26; i++)
                (void)hold(first, 4 * MIB);
        for (unsigned i = 0; i < 4; i++)
                (void)hold(second, 4 * MIB);
        ask(first, 1, 8 * MIB, 0);
        expect_too_many(first, 1);
        ask(second, 1, 8 * MIB, 0);
        expect_too_many(second, 1);
        for (unsigned i = 0; i < 2; i++) {
                (void)hold(others[i], 4 * MIB);
                ask(others[i], 1, 8 * MIB, 0);
                expect_too_many(others[i], 1);
        }
}

#define OWNER    7
#define OTHER    8
#define N_MANY   512
#define N_KEPT   32 /* of these */
#define N_FIRSTS (N_KEPT / 2)

static bool gets_one(struct client *client)
{
        struct action action;

        policy_lease(world.policy, client, &(const struct policy_ask){.n_bytes = 2 * MIB},
                     world.now_ns);
        action = next_action();
        if (action.kind == ACTION_REFUSE)
                return false;
        ck_assert_int_eq(action.kind, ACTION_CREATE);
        policy_created(world.policy, action.block, 0, &world, world.now_ns);
        ck_assert_int_eq(next_action().kind, ACTION_GRANT);
        return true;
}

/* Blocks of tenants that come one after the other, in containers of one user; each has another uid, too. */
static unsigned take_in_containers(uint32_t owner, unsigned n_tenants)
{
        unsigned n = 0;

        for (unsigned i = 0; i < n_tenants; i++)
                n += gets_one(join_in(owner, 1000 + i, i));
        return n;
}

POLICY_TEST(all_tenants_of_one_user_leave_blocks_for_other_users, MANY_BYTES)
{
        struct client *other;
        unsigned n_first, n;

        policy_set_max_blocks(world.policy, N_MANY);
        n_first = take_in_containers(OWNER, N_MANY);
        policy_check(world.policy);
        ck_assert_uint_lt(n_first, N_MANY - N_KEPT);
        ck_assert_uint_gt(n_first, N_MANY * 8 / 9);
        other = join(OTHER);
        for (n = 0; gets_one(other); n++)
                continue;
        ck_assert_uint_eq(n_first + n, N_MANY - N_KEPT);
        /* Of the kept ones half are for tenants of users that have some, and no user gets all of these. */
        n = take_in_containers(OTHER, N_MANY);
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_lt(n, N_FIRSTS);
        ck_assert_uint_gt(take_in_containers(OWNER + 2, N_MANY), 1);
        for (unsigned i = 0; i < N_FIRSTS / 2; i++)
                ck_assert(gets_one(join_in(100 + i, 1000, i)));
}

/* As many blocks as the container gets, for one client after the other. */
static unsigned fill_container(uint32_t owner, unsigned container)
{
        unsigned n = 0;

        for (struct client *client = join_in(owner, owner, container); gets_one(client);) {
                if (++n % WORLD_N_SLOTS == 0)
                        client = join_in(owner, owner, container);
        }
        return n;
}

/* The first container leaves something for its user's next one. */
POLICY_TEST(containers_of_one_user_share_what_it_may_have, MANY_BYTES)
{
        unsigned n;

        policy_set_max_blocks(world.policy, N_MANY);
        ck_assert_uint_eq(fill_container(OWNER, 1), N_MANY * 4 / 5 + 1);
        n = fill_container(OWNER, 2);
        policy_check(world.policy);
        ck_assert_uint_gt(n, N_MANY / 15);
        ck_assert_uint_lt(n, N_MANY / 10);
        ck_assert_uint_ge(fill_container(OWNER, 3), 1);
        ck_assert_uint_ge(fill_container(OTHER, 1), N_MANY / 30);
}

#define N_KEPT_BLOCKS 20
#define FEW_ITEMS     2

/* They come before it in the cache. A part passes fewer, so the next one goes on behind those. */
POLICY_TEST(in_turns_blocks_that_stay_mapped_are_passed_by, 64 * MIB)
{
        const struct policy_ask keeping = {.pool = 1, .n_bytes = 2 * MIB, .keeps_mapped = true};
        const struct policy_ask plain = {.pool = 1, .n_bytes = 2 * MIB};
        const struct policy_ask wanted = {
                .pool = 1, .serial = 1, .n_bytes = 4 * MIB, .deadline_ns = UINT64_MAX};
        struct client *a = join(1);
        struct held kept[N_KEPT_BLOCKS], last;
        struct action action = {.kind = ACTION_NONE};

        for (unsigned i = 0; i < N_KEPT_BLOCKS; i++)
                kept[i] = hold_with(a, &keeping);
        last = hold_with(a, &plain);
        for (unsigned i = 0; i < N_KEPT_BLOCKS; i++)
                give_back(a, kept[i].lease, RETURN_MAPPED);
        give_back(a, last.lease, RETURN_MAPPED);
        policy_set_max_blocks(world.policy, N_KEPT_BLOCKS + 4);
        policy_serve_in_turns(world.policy);
        ask_with(a, &wanted);
        for (unsigned i = 0; i < N_KEPT_BLOCKS && action.kind == ACTION_NONE; i++) {
                (void)policy_serve(world.policy, FEW_ITEMS, world.now_ns);
                policy_check(world.policy);
                action = next_action();
        }
        ck_assert_int_eq(action.kind, ACTION_RELEASE);
        ck_assert_ptr_eq(action.block, last.block);
}

TESTS_MAIN("policy: fd budget")
