/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: how often the queue is walked, how many may wait, and for how long one holds up others. */
#include <errno.h>
#include <limits.h>

#include "base/err.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/state/types.h"
#include "tests/unit/policy/policy_world.h"

POLICY_TEST(in_turns_a_queue_is_walked_once_for_all, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold(a, 4 * MIB), other = hold(a, 4 * MIB);
        uint64_t n_walks;

        policy_serve_in_turns(world.policy);
        ask(b, 1, 4 * MIB, UINT64_MAX);
        expect_wait(b, 2, 4 * MIB, 0);
        n_walks = world.policy->n_walks;
        give_back(a, held.lease, RETURN_UNMAPPED);
        give_back(a, other.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_declare(world.policy, b, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
        expect_release(held.block);
        expect_release(other.block);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 4 * MIB);
        ck_assert_uint_eq(block_bytes(take(ACTION_CREATE).block), 4 * MIB);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 2);
}

static void serve_all(void)
{
        while (!policy_serve(world.policy, UINT_MAX, world.now_ns))
                continue;
        policy_check(world.policy);
}

/* Another tenant waits for room, so a block that it has not met goes to it first, if it helps. */
POLICY_TEST(a_cached_block_that_a_walk_has_passed_by_is_given_at_once, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold(a, 2 * MIB), rest = hold(join(3), 6 * MIB);
        uint64_t n_walks;

        policy_serve_in_turns(world.policy);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ask(a, 1, 2 * MIB, UINT64_MAX);
        expect_idle();
        serve_all();
        held.lease = expect_grant(a, 1);
        give_back(a, held.lease, RETURN_UNMAPPED);
        serve_all();
        n_walks = world.policy->n_walks;
        ask(a, 2, 2 * MIB, 0);
        held.lease = expect_grant(a, 2);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        give_back(world.boards[2].client, rest.lease, RETURN_UNMAPPED);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ask(a, 3, 2 * MIB, 0);
        serve_all();
        expect_release(rest.block);
        expect_release(held.block);
        expect_refusal(a, 3, GPUMEM_E_REFUSED);
}

POLICY_TEST(it_does_not_go_past_others_of_its_tenant, 8 * MIB)
{
        struct client *a = join(1), *kin = join(1);
        struct held held = hold(a, 2 * MIB);

        (void)hold(join(2), 6 * MIB);
        policy_serve_in_turns(world.policy);
        ask(kin, 1, 4 * MIB, UINT64_MAX);
        give_back(a, held.lease, RETURN_UNMAPPED);
        serve_all();
        ask(a, 2, 2 * MIB, UINT64_MAX);
        expect_idle();
        serve_all();
        (void)expect_grant(a, 2);
}

/* No request waits, so none needs to be met. */
POLICY_TEST(where_nobody_waits_a_cached_block_is_given_at_once, 8 * MIB)
{
        struct client *a = join(1);
        struct held held = hold(a, 2 * MIB);
        uint64_t n_walks = world.policy->n_walks;

        policy_serve_in_turns(world.policy);
        give_back(a, held.lease, RETURN_UNMAPPED);
        serve_all();
        ask(a, 1, 2 * MIB, 0);
        (void)expect_grant(a, 1);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
}

/* The walk had met the one that waits when the blocks came. */
POLICY_TEST(a_block_that_came_during_a_walk_has_not_been_passed_by, 8 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        struct held held = hold(a, 2 * MIB), rest = hold(c, 6 * MIB);
        uint64_t n_walks = world.policy->n_walks;

        policy_serve_in_turns(world.policy);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < 1000 && !world.policy->pools[0]->queue.walk.at; i++)
                (void)policy_serve(world.policy, 1, world.now_ns);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
        give_back(c, rest.lease, RETURN_UNMAPPED);
        give_back(a, held.lease, RETURN_UNMAPPED);
        for (unsigned i = 0; i < 1000 && world.policy->n_walks == n_walks + 1; i++)
                (void)policy_serve(world.policy, 1, world.now_ns);
        ask(a, 1, 2 * MIB, 0);
        expect_idle();
        serve_all();
        expect_release(rest.block);
        expect_release(held.block);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
}

POLICY_TEST(one_that_it_does_not_map_is_not_given_at_once_to_one_that_wants_no_other, 8 * MIB)
{
        const struct policy_ask request = {
                .serial = 1, .n_bytes = 2 * MIB, .known_will_do = true, .only_known = true};
        struct client *a = join(1);

        (void)cache(a, 2 * MIB, RETURN_UNMAPPED);
        ask_with(a, &request);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
}

/* A smaller block would do, and there is room below the limit for neither. */
POLICY_TEST(nor_one_that_passes_a_limit, 16 * MIB)
{
        const struct policy_ask request = {
                .serial = 1, .n_bytes = 4 * MIB, .n_least_bytes = 2 * MIB, .deadline_ns = 5000};
        struct client *a = join(1);

        set_limit(LIMIT_OF_CLIENT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 4 * MIB);
        (void)hold(a, 4 * MIB);
        (void)cache(join(1), 2 * MIB, RETURN_UNMAPPED);
        ask_with(a, &request);
        expect_idle();
}

/* Many clients declare the same bytes again. */
POLICY_TEST(nobody_is_looked_at_when_nothing_has_changed, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        uint64_t n_walks;

        (void)hold(b, 8 * MIB);
        ask(b, 1, 8 * MIB, UINT64_MAX);
        client_set_held(a, 4 * MIB);
        n_walks = world.policy->n_walks;
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(policy_declare(world.policy, a, 0, 4 * MIB, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks);
        ck_assert_int_eq(policy_declare(world.policy, a, 0, 0, world.now_ns), 0);
        ck_assert_uint_eq(world.policy->n_walks, n_walks + 1);
}

POLICY_TEST(a_queue_without_requests_is_not_walked, 8 * MIB)
{
        struct client *a = join(1);
        uint64_t n_walks = world.policy->n_walks;
        struct held held = hold(a, 4 * MIB);

        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_le(world.policy->n_walks, n_walks + 1);
}

static void ask_for_ever(struct client *client, uint32_t serial)
{
        const struct policy_ask request = {
                .serial = serial, .n_bytes = 2 * MIB, .deadline_ns = UINT64_MAX};

        policy_lease(world.policy, client, &request, world.now_ns);
}

static unsigned take_refusals(void)
{
        unsigned n = 0;

        while (policy_next_action(world.policy).kind == ACTION_REFUSE)
                n++;
        return n;
}

POLICY_TEST(so_many_of_a_tenant_wait_and_no_more, 8 * MIB)
{
        struct client *other = join(2);

        (void)hold(other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (unsigned i = 0; i < 5; i++) {
                struct client *client = join(1);

                for (uint32_t serial = 1; serial <= 64; serial++)
                        ask_for_ever(client, serial);
        }
        ck_assert_uint_eq(take_refusals(), 64);
        expect_wait(other, 1, 2 * MIB, UINT64_MAX);
        ck_assert_uint_eq(stats().n_waiting, 256 + 1);
}

/* Users that come one after the other, and take what they may, leave the next one a place all the same. */
POLICY_TEST(there_is_a_place_for_one_more_user, 8 * MIB)
{
        (void)hold(join(3), 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (uint32_t uid = 10; uid < 30; uid++) {
                struct client *client = join(uid);

                for (uint32_t serial = 1; serial <= 64; serial++)
                        ask_for_ever(client, serial);
                ck_assert_uint_ge(client->tenant->n_waiting, 1);
        }
        (void)take_refusals();
        ck_assert_uint_ge(stats().n_waiting, 512);
        expect_wait(join(99), 1, 2 * MIB, UINT64_MAX);
        expect_refused(join(99), 1, 2 * MIB, UINT64_MAX, GPUMEM_E_TOO_MANY);
        policy_check(world.policy);
}

/* One request in each container of the user waits; returns how many of these there are in the end. */
static unsigned wait_in_containers(uint32_t owner, unsigned n_containers)
{
        uint64_t n_before = stats().n_waiting;

        for (unsigned i = 0; i < n_containers; i++)
                ask_for_ever(join_in(owner, 1000 + i, i), 1);
        (void)take_refusals();
        return (unsigned)(stats().n_waiting - n_before);
}

/* Users with many containers, one after the other. */
POLICY_TEST(containers_of_one_user_leave_places_for_others, 8 * MIB)
{
        struct client *other = join(3);
        unsigned n;

        (void)hold(other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        n = wait_in_containers(7, 600);
        ck_assert_uint_gt(n, 256);
        ck_assert_uint_lt(n, 512);
        for (uint32_t serial = 1; serial <= 16; serial++)
                expect_wait(other, serial, 2 * MIB, UINT64_MAX);
        for (uint32_t owner = 20; owner < 32; owner++)
                ck_assert_uint_ge(wait_in_containers(owner, owner == 20 ? 130 : 40), 1);
        expect_wait(join(99), 1, 2 * MIB, UINT64_MAX);
        policy_check(world.policy);
}

/* Root runs containers of many people, and any number of uids may be in one. */
POLICY_TEST(uids_of_a_container_that_root_runs_leave_places_for_its_others, 8 * MIB)
{
        struct client *other = join(3);

        (void)hold(other, 8 * MIB);
        policy_serve_in_turns(world.policy);
        for (unsigned uid = 0; uid < 600; uid++)
                ask_for_ever(join_in(0, uid, 1), 1);
        (void)take_refusals();
        for (unsigned container = 2; container < 16; container++)
                expect_wait(join_in(0, 0, container), 1, 2 * MIB, UINT64_MAX);
        policy_check(world.policy);
}

/* A request that fits, and whose block is not created in the end. */
static void bypass(struct client *client)
{
        ask(client, 1, 2 * MIB, 0);
        created(take(ACTION_CREATE).block, -EIO);
        expect_refusal(client, 1, -EIO);
}

/* A request for all memory with an unlimited deadline does not stop the others. */
POLICY_TEST(nobody_is_held_up_for_long, 8 * MIB)
{
        struct client *x = join(9), *a = join(1), *b = join(2);
        struct held held = hold(x, 4 * MIB);

        for (unsigned round = 0; round < 3; round++) {
                uint64_t since_ns = world.now_ns;

                ask(a, round, 8 * MIB, UINT64_MAX);
                for (unsigned i = 0; i < BACKFILL_MAX && !round; i++)
                        bypass(b);
                expect_wait(b, 1, 2 * MIB, UINT64_MAX);
                ck_assert_uint_eq(policy_next_deadline(world.policy), since_ns + BACKFILL_HOLD_NS);
                world.now_ns = since_ns + BACKFILL_HOLD_NS - 1;
                later(0);
                expect_idle();
                later(1);
                created(take(ACTION_CREATE).block, -EIO);
                expect_refusal(b, 1, -EIO);
                ck_assert_uint_eq(policy_next_deadline(world.policy), UINT64_MAX);
                /* In the rest of the round it may be bypassed freely, whatever else its tenant asks for. */
                world.now_ns = since_ns + BACKFILL_ROUND_NS - 1;
                for (unsigned i = 0; i < 2 * BACKFILL_MAX; i++)
                        bypass(b);
                world.now_ns++;
        }
        expect_wait(b, 1, 2 * MIB, UINT64_MAX);
        give_back(x, held.lease, RETURN_UNMAPPED);
        expect_release(held.block);
        (void)expect_create(a, 0);
}

static void leave(struct client *client)
{
        while (policy_client_drop_some(world.policy, client, 64, world.now_ns))
                continue;
        (void)policy_client_eof(world.policy, client, world.now_ns);
        (void)policy_client_dead(world.policy, client, world.now_ns);
}

/* As the first request of a round. */
static void hold_up_others(struct client *a, struct client *b)
{
        ask(a, 1, 8 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < BACKFILL_MAX; i++)
                bypass(b);
        expect_wait(b, 1, 2 * MIB, UINT64_MAX);
        later(BACKFILL_HOLD_NS);
        created(take(ACTION_CREATE).block, -EIO);
        expect_refusal(b, 1, -EIO);
}

/* Beside others, whose rounds are remembered, too. */
POLICY_TEST(a_user_that_comes_again_goes_on_with_its_round, 8 * MIB)
{
        struct client *a = join(1), *b = join(2), *other;

        (void)hold(join(9), 4 * MIB);
        hold_up_others(a, b);
        leave(a);
        for (uint32_t uid = 20; uid < 40; uid++) {
                other = join_in(uid, uid, 1);
                ask(other, 1, 8 * MIB, UINT64_MAX);
                leave(other);
        }
        a = join(1);
        ask(a, 1, 8 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < 2 * BACKFILL_MAX; i++)
                bypass(b);
        leave(a);
        world.now_ns += BACKFILL_ROUND_NS;
        hold_up_others(join(1), b);
}

POLICY_TEST(a_user_s_containers_hold_up_others_no_longer_than_one, 8 * MIB)
{
        struct client *b = join(2);

        (void)hold(join(9), 4 * MIB);
        hold_up_others(join_in(1, 1, 1), b);
        for (unsigned container = 2; container < 10; container++) {
                ask(join_in(1, 1, container), 1, 8 * MIB, UINT64_MAX);
                for (unsigned i = 0; i < 2 * BACKFILL_MAX; i++)
                        bypass(b);
        }
}

/* Clients of so many users, of which each has as many requests that wait. */
static void fill_queue(unsigned n_clients, uint32_t n_each, uint64_t deadline_ns)
{
        for (unsigned i = 0; i < n_clients; i++) {
                struct client *client = join(10 + i);

                for (uint32_t serial = 1; serial <= n_each; serial++)
                        ask(client, serial, 8 * MIB, deadline_ns);
        }
}

static unsigned n_refusals(void)
{
        unsigned n = 0;

        for (; policy_next_action(world.policy).kind != ACTION_NONE; n++)
                continue;
        policy_check(world.policy);
        return n;
}

POLICY_TEST(a_walk_goes_on_after_so_many_requests, 8 * MIB)
{
        (void)hold(join(1), 8 * MIB);
        policy_serve_in_turns(world.policy);
        fill_queue(4, 50, UINT64_MAX);
        /* Four tenants are sorted, and 200 requests met. */
        for (unsigned i = 0; i < 3; i++)
                ck_assert_uint_eq(policy_serve(world.policy, 64, world.now_ns), 0);
        ck_assert_uint_gt(policy_serve(world.policy, 64, world.now_ns), 0);
        ck_assert_uint_eq(n_refusals(), 0);
        ck_assert_uint_eq(policy_serve(world.policy, 64, world.now_ns), 64);
}

/* All expire at one time. An answer is eight items. */
POLICY_TEST(so_many_expire_at_one_time_and_no_more, 8 * MIB)
{
        unsigned n = 0, n_parts = 0;

        (void)hold(join(1), 8 * MIB);
        policy_serve_in_turns(world.policy);
        fill_queue(4, 50, world.now_ns + 1);
        while (!policy_serve(world.policy, 64, world.now_ns))
                continue;
        world.now_ns++;
        policy_expire(world.policy, world.now_ns);
        ck_assert_uint_eq(n_refusals(), 0);
        while (n < 200) {
                unsigned n_more;

                (void)policy_serve(world.policy, 64, world.now_ns);
                n_more = n_refusals();
                ck_assert_uint_le(n_more, 2);
                n += n_more;
                ck_assert_uint_lt(n_parts++, 150);
        }
        ck_assert_uint_eq(stats().n_waiting, 0);
}

/* While a walk rests, clients leave: that of the next request, one further on, and a whole tenant. */
POLICY_TEST(who_leaves_while_a_walk_rests_is_not_met, 8 * MIB)
{
        struct held held;
        struct client *first, *second, *third;

        held = hold(join(1), 8 * MIB);
        first = join(2);
        second = join(3);
        third = join(4);
        policy_serve_in_turns(world.policy);
        ask(first, 1, 8 * MIB, UINT64_MAX);
        ask(first, 2, 8 * MIB, UINT64_MAX);
        ask(second, 3, 8 * MIB, UINT64_MAX);
        ask(third, 4, 8 * MIB, UINT64_MAX);
        give_back(world.boards[0].client, held.lease, RETURN_UNMAPPED);
        for (unsigned i = 0; i < 4; i++)
                ck_assert_uint_eq(policy_serve(world.policy, 1, world.now_ns), 0);
        ck_assert(policy_cancel(world.policy, first, 2, world.now_ns));
        ck_assert(!policy_client_eof(world.policy, second, world.now_ns));
        ck_assert(policy_client_dead(world.policy, second, world.now_ns));
        policy_check(world.policy);
        while (!policy_serve(world.policy, 1, world.now_ns))
                policy_check(world.policy);
        expect_release(held.block);
        expect_refusal(first, 2, GPUMEM_E_CANCELLED);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        created(take(ACTION_CREATE).block, 0);
        (void)expect_grant(first, 1);
        ck_assert_uint_eq(stats().n_waiting, 1);
}

/* A device is lost: no client is charged any more for what was being made there. A request elsewhere waits for that, and
 * its queue is walked first. */
POLICY_TEST(the_end_of_a_charge_serves_who_was_met_before, 8 * MIB)
{
        struct client *client = join(1);

        set_limit(LIMIT_OF_TENANT, 1, LIMIT_LEASES, 1);
        policy_serve_in_turns(world.policy);
        ask_with(client, &(const struct policy_ask){
                                 .pool = 1, .n_bytes = 2 * MIB, .deadline_ns = UINT64_MAX});
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        (void)expect_create(client, 0);
        ask(client, 1, 2 * MIB, UINT64_MAX);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        expect_idle();
        ck_assert_int_eq(policy_set_driver_status(world.policy, 1, DRIVER_LOST, world.now_ns), 0);
        (void)policy_serve(world.policy, UINT_MAX, world.now_ns);
        expect_refusal(client, 0, -ENODEV);
        (void)expect_create(client, 1);
}

TESTS_MAIN("policy: queue")
