/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told that others lack memory. */
#include "daemon/policy/scheduling/pressure.h"
#include "tests/unit/policy/policy_world.h"

static struct client *join_hearing(uint32_t uid)
{
        struct client *client = join(uid);

        client_hear_pressure(client);
        return client;
}

static void expect_told(const struct client *client)
{
        struct action action = take(ACTION_PRESSURE);

        ck_assert_ptr_eq(action.client, client);
        ck_assert_uint_eq(action.pool, 0);
}

POLICY_TEST(holders_are_told_before_a_request_is_refused_those_with_most_first, 32 * MIB)
{
        struct client *a = join_hearing(1), *b = join_hearing(2), *c = join_hearing(3);

        (void)hold(b, 4 * MIB);
        (void)hold(c, 16 * MIB);
        ask(a, 1, 16 * MIB, 0);
        expect_told(c);
        expect_told(b);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
        expect_idle();
}

POLICY_TEST(a_request_tells_once_and_is_served_by_what_is_freed, 16 * MIB)
{
        struct client *a = join_hearing(1), *b = join_hearing(1);
        struct held held = hold(b, 16 * MIB);

        ask(a, 1, 16 * MIB, UINT64_MAX);
        expect_told(b);
        expect_idle();
        later(PRESSURE_NS);
        expect_idle();
        give_back(b, held.lease, RETURN_UNMAPPED);
        (void)expect_grant(a, 1);
        expect_idle();
}

POLICY_TEST(who_was_told_is_left_in_peace_for_a_while, 16 * MIB)
{
        struct client *a = join_hearing(1), *b = join_hearing(2);

        (void)hold(b, 16 * MIB);
        ask(a, 1, 4 * MIB, 0);
        expect_told(b);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
        expect_refused(a, 2, 4 * MIB, 0, GPUMEM_E_REFUSED);
        later(PRESSURE_NS);
        ask(a, 3, 4 * MIB, 0);
        expect_told(b);
        expect_refusal(a, 3, GPUMEM_E_REFUSED);
        expect_idle();
}

static void take_told(unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                (void)take(ACTION_PRESSURE);
}

/* One that does not wait tells those that hold most. */
POLICY_TEST(so_many_are_told_at_a_time, 64 * MIB)
{
        struct client *a = join_hearing(1), *most = join_hearing(2);

        for (unsigned i = 0; i < PRESSURE_A_TIME; i++)
                (void)hold(join_hearing(2), 2 * MIB);
        (void)hold(most, 16 * MIB);
        ask(a, 1, 48 * MIB, 0);
        expect_told(most);
        take_told(PRESSURE_A_TIME - 1);
        expect_refusal(a, 1, GPUMEM_E_REFUSED);
        expect_idle();
}

POLICY_TEST(so_many_are_told_at_most, 64 * MIB)
{
        struct client *a = join_hearing(1);

        for (unsigned i = 0; i < PRESSURE_CLIENTS + 4; i++)
                (void)hold(join_hearing(2), 2 * MIB);
        ask(a, 1, 32 * MIB, world.now_ns + 10 * PRESSURE_NS);
        for (unsigned n_told = PRESSURE_A_TIME; n_told < PRESSURE_CLIENTS;
             n_told += PRESSURE_A_TIME) {
                take_told(PRESSURE_A_TIME);
                later(1);
        }
        take_told(PRESSURE_A_TIME);
        later(1);
        expect_idle();
        later(PRESSURE_NS);
        expect_idle();
        later(10 * PRESSURE_NS);
        expect_refusal(a, 1, GPUMEM_E_TIMED_OUT);
        expect_idle();
}

/* Only its own tenant's clients can help. */
POLICY_TEST(a_limit_is_told_to_its_tenant, 64 * MIB)
{
        struct client *a = join_hearing(1), *b = join_hearing(1), *c = join_hearing(2);

        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        (void)hold(b, 8 * MIB);
        (void)hold(c, 16 * MIB);
        ask(a, 1, 16 * MIB, 0);
        expect_told(b);
        expect_refusal(a, 1, GPUMEM_E_LIMIT);
        expect_idle();
}

POLICY_TEST(who_does_not_hear_and_who_asks_is_not_told, 16 * MIB)
{
        struct client *a = join_hearing(1), *b = join(2);
        struct policy_ask cached = {.serial = 2, .n_bytes = 16 * MIB, .only_cached = true};

        (void)hold(a, 8 * MIB);
        (void)hold(b, 8 * MIB);
        expect_refused(a, 1, 16 * MIB, 0, GPUMEM_E_REFUSED);
        ask_with(b, &cached);
        (void)take(ACTION_REFUSE);
        expect_idle();
}

/* The notice goes with the client. */
POLICY_TEST(one_that_ends_is_not_told, 16 * MIB)
{
        struct client *a = join(1), *b = join_hearing(2);

        (void)hold(b, 16 * MIB);
        ask(a, 1, 16 * MIB, 0);
        ck_assert(!policy_client_eof(world.policy, b, world.now_ns));
        ck_assert_int_eq(next_action().kind, ACTION_REFUSE);
}

TESTS_MAIN("policy: pressure")
