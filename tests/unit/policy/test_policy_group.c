/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are served together or not at all. */
#include "tests/random.h"
#include "tests/unit/policy/policy_world.h"

static void ask_more(struct client *client, uint32_t serial, uint64_t n_bytes)
{
        struct policy_ask request = {.serial = serial, .n_bytes = n_bytes, .more = true};

        ask_with(client, &request);
}

POLICY_TEST(who_does_not_wait_is_refused_with_all, 16 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct action action;

        (void)hold(b, 4 * MIB);
        ask_more(a, 1, 8 * MIB);
        ask(a, 2, 8 * MIB, 0);
        action = take(ACTION_REFUSE);
        ck_assert_uint_eq(action.serial, 1);
        ck_assert(action.of_part);
        action = take(ACTION_REFUSE);
        ck_assert_uint_eq(action.serial, 2);
        ck_assert(!action.of_part);
        ck_assert_int_eq(action.outcome, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(action.n_bytes, 16 * MIB);
        ck_assert_uint_eq(stats().n_refusals, 1);
        expect_idle();
}

POLICY_TEST(cached_blocks_of_the_same_size_serve_parts, 12 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held cached[2];

        cache_several(b, 4 * MIB, 2, cached);
        ask_more(a, 1, 4 * MIB);
        ask_more(a, 2, 4 * MIB);
        ask(a, 3, 4 * MIB, 0);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, cached[1].block);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, cached[0].block);
        (void)expect_made(a, 3);
        expect_idle();
}

POLICY_TEST(idle_leases_of_its_tenant_are_taken_for_it, 12 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[3];

        for (unsigned i = 0; i < 3; i++)
                held[i] = hold(b, 4 * MIB);
        mark_idle(b, held[0].lease);
        mark_idle(b, held[1].lease);
        ask_more(a, 1, 4 * MIB);
        ask_more(a, 2, 4 * MIB);
        ask(a, 3, 4 * MIB, 0);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
        expect_refusal(a, 2, GPUMEM_E_REFUSED);
        expect_refusal(a, 3, GPUMEM_E_REFUSED);
        ck_assert(!was_revoked(b, held[0].lease));
        mark_idle(b, held[2].lease);
        ask_more(a, 4, 4 * MIB);
        ask_more(a, 5, 4 * MIB);
        ask(a, 6, 4 * MIB, 0);
        for (uint32_t serial = 4; serial <= 6; serial++)
                (void)expect_grant(a, serial);
        expect_idle();
}

POLICY_TEST(one_that_takes_cached_blocks_only_has_none_made, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct policy_ask request = {
                .serial = 1, .n_bytes = 8 * MIB, .only_cached = true, .deadline_ns = UINT64_MAX};
        struct action action;
        struct held cached;

        ask_with(a, &request);
        action = take(ACTION_REFUSE);
        ck_assert(action.only_cached);
        ck_assert_int_eq(action.outcome, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(stats().n_refusals, 0);
        cached = cache(b, 8 * MIB, RETURN_UNMAPPED);
        request.serial = 2;
        ask_with(a, &request);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, cached.block);
        request.more = true;
        ask_with(a, &request);
        ask(a, 3, 4 * MIB, 0);
        ck_assert_int_eq(take(ACTION_REFUSE).outcome, GPUMEM_E_BAD_REQUEST);
        (void)take(ACTION_REFUSE);
        expect_idle();
}

POLICY_TEST(a_block_that_was_made_in_vain_is_not_kept, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold(a, 4 * MIB);

        give_back(a, held.lease, RETURN_UNUSED);
        expect_release(held.block);
        expect_totals(0, 0, 0);
        held = cache(b, 4 * MIB, RETURN_UNMAPPED);
        ask(a, 1, 4 * MIB, 0);
        give_back(a, expect_grant(a, 1), RETURN_UNUSED);
        expect_idle();
        expect_totals(0, 4 * MIB, 0);
}

POLICY_TEST(a_limit_is_one_of_all_together, 32 * MIB)
{
        struct client *a = join(1);
        struct action action;

        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_CLIENT, POLICY_EVERY_UID,
                                          LIMIT_LEASES, 2, world.now_ns),
                         0);
        ask_more(a, 1, 4 * MIB);
        ask_more(a, 2, 4 * MIB);
        ask(a, 3, 4 * MIB, UINT64_MAX);
        expect_refusal(a, 1, GPUMEM_E_LIMIT);
        expect_refusal(a, 2, GPUMEM_E_LIMIT);
        action = take(ACTION_REFUSE);
        ck_assert_int_eq(action.limit.kind, LIMIT_LEASES);
        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_CLIENT, POLICY_EVERY_UID,
                                          LIMIT_LEASES, 3, world.now_ns),
                         0);
        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_CLIENT, POLICY_EVERY_UID,
                                          LIMIT_DEVICE_BYTES, 10 * MIB, world.now_ns),
                         0);
        ask_more(a, 4, 4 * MIB);
        ask_more(a, 5, 4 * MIB);
        ask(a, 6, 4 * MIB, UINT64_MAX);
        for (uint32_t serial = 4; serial <= 6; serial++)
                expect_refusal(a, serial, GPUMEM_E_LIMIT);
        expect_idle();
}

POLICY_TEST(more_than_the_pool_may_be_is_too_large, 8 * MIB)
{
        struct client *a = join(1);

        ask_more(a, 1, 6 * MIB);
        ask(a, 2, 4 * MIB, UINT64_MAX);
        expect_refusal(a, 1, GPUMEM_E_TOO_LARGE);
        expect_refusal(a, 2, GPUMEM_E_TOO_LARGE);
}

POLICY_TEST(one_that_is_wrong_is_the_refusal_of_all, 32 * MIB)
{
        struct client *a = join(1);
        struct policy_ask other_pool = {.serial = 3, .pool = 1, .n_bytes = 4 * MIB, .more = true};

        ask_more(a, 1, 4 * MIB);
        ask_more(a, 2, 3 * MIB);
        expect_refusal(a, 2, GPUMEM_E_BAD_REQUEST);
        ask_with(a, &other_pool);
        expect_refusal(a, 3, GPUMEM_E_BAD_REQUEST);
        ask(a, 4, 4 * MIB, 0);
        expect_refusal(a, 1, GPUMEM_E_BAD_REQUEST);
        expect_refusal(a, 4, GPUMEM_E_BAD_REQUEST);
        (void)hold(a, 4 * MIB);
}

POLICY_TEST(one_that_is_withdrawn_takes_all_with_it, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);

        (void)hold(b, 8 * MIB);
        ask_more(a, 1, 4 * MIB);
        ask(a, 2, 4 * MIB, UINT64_MAX);
        ck_assert(policy_cancel(world.policy, a, 1, world.now_ns));
        expect_refusal(a, 1, GPUMEM_E_CANCELLED);
        expect_refusal(a, 2, GPUMEM_E_CANCELLED);
        ask_more(a, 3, 4 * MIB);
        ck_assert(policy_cancel(world.policy, a, 3, world.now_ns));
        expect_refusal(a, 3, GPUMEM_E_CANCELLED);
        ask(a, 4, 4 * MIB, UINT64_MAX);
        expect_refusal(a, 4, GPUMEM_E_CANCELLED);
        expect_idle();
}

POLICY_TEST(a_client_ends_in_the_middle, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);

        (void)hold(b, 8 * MIB);
        ask_more(a, 1, 4 * MIB);
        ask(a, 2, 4 * MIB, UINT64_MAX);
        ask_more(a, 3, 4 * MIB);
        ck_assert(!policy_client_eof(world.policy, a, world.now_ns));
        policy_check(world.policy);
        ck_assert_uint_eq(stats().n_waiting, 0);
        expect_idle();
}

/* The other parts hold memory meanwhile, so it does not wait for the driver. */
POLICY_TEST(what_the_driver_has_not_is_refused_at_once, 8 * MIB)
{
        struct client *a = join(1);
        struct block *first, *second;

        ask_more(a, 1, 4 * MIB);
        ask(a, 2, 4 * MIB, UINT64_MAX);
        first = take(ACTION_CREATE).block;
        second = take(ACTION_CREATE).block;
        created(first, 0);
        created(second, GPUMEM_E_DEVICE_FULL);
        (void)expect_grant(a, 1);
        expect_refusal(a, 2, GPUMEM_E_DEVICE_FULL);
}

POLICY_TEST(there_are_files_for_all_of_it_or_it_waits, 32 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold(b, 4 * MIB);

        policy_set_max_blocks(world.policy, 4);
        ask_more(a, 1, 4 * MIB);
        ask_more(a, 2, 4 * MIB);
        ask(a, 3, 4 * MIB, UINT64_MAX);
        (void)take(ACTION_CREATE);
        (void)take(ACTION_CREATE);
        (void)take(ACTION_CREATE);
        expect_idle();
        ask_more(b, 4, 4 * MIB);
        ask(b, 5, 4 * MIB, 0);
        expect_refusal(b, 4, GPUMEM_E_TOO_MANY);
        expect_refusal(b, 5, GPUMEM_E_TOO_MANY);
        (void)held;
}

POLICY_TEST(others_are_not_held_up_for_more_than_a_large_request_would, 16 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);

        (void)hold(b, 8 * MIB);
        ask_more(a, 1, 8 * MIB);
        ask(a, 2, 8 * MIB, UINT64_MAX);
        /* It is smaller than the group's sum, so it may bypass the group. */
        ask(c, 3, 8 * MIB, UINT64_MAX);
        (void)take(ACTION_CREATE);
        expect_idle();
}

#define N_PARTS 64

static void ask_for_parts(struct client *client)
{
        for (uint32_t i = 0; i + 1 < N_PARTS; i++)
                ask_more(client, i, 2 * MIB);
        ask(client, N_PARTS, 2 * MIB, UINT64_MAX);
}

/* Of these, one is given the block that was made. */
static unsigned take_creates(struct block **ret_blocks)
{
        unsigned n = 0;

        for (;;) {
                struct action action = policy_next_action(world.policy);

                if (action.kind == ACTION_CREATE)
                        ret_blocks[n++] = action.block;
                else if (action.kind == ACTION_NONE)
                        return n;
        }
}

/* Their parts wait for the driver, each in the queue: all others would be refused, and each walk would meet them. */
POLICY_TEST(groups_of_one_owner_take_no_more_places_than_its_share, GIB)
{
        enum { N_GROUPS = 6 };
        struct block *blocks[N_GROUPS * N_PARTS];
        struct client *other, *holder = join(1);
        struct held held = hold(holder, GIB);
        unsigned n_done = 0, n;

        for (unsigned i = 0; i < N_GROUPS; i++)
                ask_for_parts(join(1));
        expect_idle();
        give_back(holder, held.lease, RETURN_UNUSED);
        expect_release(held.block);
        n = take_creates(blocks);
        ck_assert_uint_ge(n, 2 * N_PARTS);
        ck_assert_uint_lt(n, N_GROUPS * N_PARTS);
        other = join(2);
        expect_new(other, 1, 2 * MIB, UINT64_MAX);
        expect_new(other, 2, 2 * MIB, UINT64_MAX);
        while (n_done < n) {
                created(blocks[n_done++], 0);
                n += take_creates(blocks + n);
        }
        ck_assert_uint_eq(n, N_GROUPS * N_PARTS);
}

/* However many wait, an owner of which no block is made has one group made. */
POLICY_TEST(a_group_needs_no_places_if_none_of_its_owner_is_made, GIB)
{
        struct block *blocks[N_PARTS];
        struct client *crowd[8], *asker = join(1);

        (void)hold(asker, GIB - 2 * N_PARTS * MIB);
        for (unsigned i = 0; i < 8; i++)
                crowd[i] = join_in(2 + i / 2, 1, i);
        for (uint32_t serial = 0; serial < 64; serial++) {
                for (unsigned i = 0; i < 8; i++)
                        ask(crowd[i], serial, GIB - 2 * MIB, UINT64_MAX);
        }
        (void)take_creates(blocks);
        ck_assert_uint_gt(stats().n_waiting, 256);
        ask_for_parts(asker);
        ck_assert_uint_eq(take_creates(blocks), N_PARTS);
}

/* -- Any order of events: all of a group is served, or nothing -- */

#define N_PLAYERS    4
#define N_HELD_MAX   16
#define GROUP_MAX    4
#define N_GROUPS_MAX 64

struct group {
        unsigned player;
        unsigned n, n_granted, n_refused;
        bool is_asked;
};

struct player {
        struct client *client;
        unsigned n_held;
        uint64_t leases[N_HELD_MAX];
};

struct play {
        struct test_random random;
        struct player players[N_PLAYERS];
        struct group groups[N_GROUPS_MAX]; /* by serial / GROUP_MAX, reused when that wraps */
        uint32_t last_group;
        unsigned long n_whole, n_none;
};

static void count_answer(struct play *play, const struct action *action)
{
        struct group *group = &play->groups[action->serial / GROUP_MAX];
        struct player *player = &play->players[group->player];

        ck_assert(group->is_asked);
        ck_assert_ptr_eq(action->client, player->client);
        if (action->kind == ACTION_GRANT) {
                group->n_granted++;
                player->leases[player->n_held++] = lease_id(action->lease);
        } else {
                group->n_refused++;
        }
        ck_assert(!group->n_granted || !group->n_refused);
        play->n_whole += group->n_granted == group->n;
        play->n_none += group->n_refused == group->n;
}

static void settle(struct play *play)
{
        for (;;) {
                struct action action = policy_next_action(world.policy);

                if (action.kind == ACTION_NONE)
                        break;
                if (action.kind == ACTION_CREATE)
                        created(action.block, 0);
                else if (action.kind == ACTION_RELEASE)
                        released(action.block);
                else if (action.kind == ACTION_GRANT || action.kind == ACTION_REFUSE)
                        count_answer(play, &action);
        }
        for (uint32_t i = 0; i < N_GROUPS_MAX; i++) {
                const struct group *group = &play->groups[i];

                if (group->is_asked)
                        ck_assert(group->n_granted == 0 || group->n_granted == group->n);
        }
}

static void ask_for_group(struct play *play, unsigned which)
{
        struct player *player = &play->players[which];
        uint32_t number = play->last_group++ % N_GROUPS_MAX;
        struct group *group = &play->groups[number];

        if (group->is_asked && group->n_granted + group->n_refused < group->n)
                return;
        *group = (struct group){.player = which,
                                .n = 1 + (unsigned)test_random_below(&play->random, GROUP_MAX),
                                .is_asked = true};
        if (player->n_held + group->n > N_HELD_MAX / 2) {
                *group = (struct group){.n = 0};
                return;
        }
        for (unsigned i = 0; i < group->n; i++) {
                struct policy_ask one = {
                        .serial = number * GROUP_MAX + i,
                        .n_bytes = 2 * MIB * (1 + test_random_below(&play->random, 4)),
                        .more = i + 1 < group->n,
                        .deadline_ns = world.now_ns + test_random_below(&play->random, 100),
                };

                ask_with(player->client, &one);
        }
}

static bool waits(const struct play *play, unsigned which)
{
        for (uint32_t i = 0; i < N_GROUPS_MAX; i++) {
                const struct group *group = &play->groups[i];

                if (group->is_asked && group->player == which &&
                    group->n_granted + group->n_refused < group->n)
                        return true;
        }
        return false;
}

static void do_something(struct play *play)
{
        unsigned which = (unsigned)test_random_below(&play->random, N_PLAYERS);
        struct player *player = &play->players[which];

        if (test_random_below(&play->random, 3) == 0 && !waits(play, which))
                ask_for_group(play, which);
        while (player->n_held && test_random_below(&play->random, 2)) {
                uint64_t id = player->leases[--player->n_held];

                ck_assert_int_eq(policy_return(world.policy, player->client, id, RETURN_UNMAPPED,
                                               world.now_ns),
                                 0);
        }
        world.now_ns += test_random_below(&play->random, 20);
        policy_expire(world.policy, world.now_ns);
        policy_check(world.policy);
}

POLICY_TEST(all_of_a_group_or_none, 32 * MIB)
{
        struct play *play = calloc(1, sizeof(*play));
        uint64_t n_steps = test_n_steps() / 50;

        ck_assert_ptr_nonnull(play);
        play->random = test_random_begin();
        for (unsigned i = 0; i < N_PLAYERS; i++)
                play->players[i].client = join(1 + i / 2);
        for (uint64_t i = 0; i < n_steps; i++) {
                do_something(play);
                settle(play);
        }
        ck_assert_uint_gt(play->n_whole, n_steps / 50);
        ck_assert_uint_gt(play->n_none, n_steps / 50);
        free(play);
}

TESTS_MAIN("policy: groups")
