/* SPDX-License-Identifier: Apache-2.0 */
/* Shared blocks that outlive their sharer for a while. */
#include "daemon/policy/drain.h"
#include "tests/unit/policy/policy_world.h"

#define KEEP_NS UINT64_C(1000)

static struct policy_share share(struct client *client, const struct held *held, uint8_t name,
                                 uint64_t keep_ns)
{
        struct policy_share terms = {.token = {{name}},
                                     .n_bytes = 1000,
                                     .granted_uid = POLICY_NO_UID,
                                     .keep_ns = keep_ns};

        ck_assert_int_eq(policy_share(world.policy, client, held->id, &terms), 0);
        policy_check(world.policy);
        return terms;
}

static int attach(struct client *client, const struct policy_share *terms, struct lease **ret_lease)
{
        uint64_t n_bytes;
        int r = policy_attach(world.policy, client, &terms->token, ret_lease, &n_bytes);

        policy_check(world.policy);
        return r;
}

static void expire(uint64_t now_ns)
{
        world.now_ns = now_ns;
        policy_expire(world.policy, now_ns);
        policy_check(world.policy);
}

/* The block has gone back to the driver. */
static void expect_gone(const struct held *held)
{
        expect_release(held->block);
        ck_assert_uint_eq(stats().charged, 0);
        ck_assert_uint_eq(policy_next_keep_end(world.policy), UINT64_MAX);
}

POLICY_TEST(it_stays_when_its_sharer_has_freed_it, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *of_b;

        ck_assert_uint_eq(policy_next_keep_end(world.policy), UINT64_MAX);
        give_back(a, held.lease, RETURN_UNMAPPED);
        expect_idle();
        expect_totals(4 * MIB, 0, 0);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(stats().charged, 4 * MIB);
        ck_assert_uint_eq(policy_next_keep_end(world.policy), world.now_ns + KEEP_NS);
        ck_assert_int_eq(attach(b, &token, &of_b), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(stats().n_leases, 1);
        ck_assert_uint_eq(policy_next_keep_end(world.policy), UINT64_MAX);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_gone(&held);
        ck_assert_int_eq(attach(b, &token, &of_b), GPUMEM_E_NO_TOKEN);
}

POLICY_TEST(it_stays_when_its_sharer_has_ended, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *of_b;

        ck_assert(!policy_client_eof(world.policy, a, world.now_ns));
        policy_check(world.policy);
        ck_assert(policy_client_dead(world.policy, a, world.now_ns));
        policy_check(world.policy);
        expect_idle();
        ck_assert_uint_eq(stats().charged, 4 * MIB);
        ck_assert_int_eq(attach(b, &token, &of_b), 0);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_gone(&held);
}

POLICY_TEST(who_withdraws_the_token_ends_it, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);

        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(policy_unshare(world.policy, b, &token.token, world.now_ns), 0);
        policy_check(world.policy);
        expect_gone(&held);
        held = hold_shareable(a, 4 * MIB);
        token = share(a, &held, 2, KEEP_NS);
        ck_assert_int_eq(policy_unshare(world.policy, a, &token.token, world.now_ns), 0);
        policy_check(world.policy);
        give_back(a, held.lease, RETURN_UNMAPPED);
        expect_gone(&held);
}

POLICY_TEST(another_tenant_does_not_end_it, 8 * MIB)
{
        struct client *a = join(1), *b = join(1), *stranger = join(2);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *lease;

        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(attach(stranger, &token, &lease), GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(policy_unshare(world.policy, stranger, &token.token, world.now_ns),
                         GPUMEM_E_NO_TOKEN);
        ck_assert_int_eq(attach(b, &token, &lease), 0);
}

/* The client for which it was kept has attached. */
POLICY_TEST(who_attached_before_the_end_has_had_it, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *of_b;

        ck_assert_int_eq(attach(b, &token, &of_b), 0);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(policy_next_keep_end(world.policy), UINT64_MAX);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_gone(&held);
}

POLICY_TEST(the_sharers_own_attachment_is_none, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *of_a, *of_b;

        ck_assert_int_eq(attach(a, &token, &of_a), 0);
        give_back(a, of_a, RETURN_UNMAPPED);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(stats().charged, 4 * MIB);
        ck_assert_int_eq(attach(b, &token, &of_b), 0);
}

POLICY_TEST(each_token_is_kept_for_one, 8 * MIB)
{
        struct client *a = join(1), *b = join(1), *c = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share late = share(a, &held, 1, 2 * KEEP_NS);
        struct policy_share early = share(a, &held, 2, KEEP_NS);
        struct policy_share never = share(a, &held, 3, 0);
        struct lease *of_b, *of_c;

        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(policy_next_keep_end(world.policy), world.now_ns + KEEP_NS);
        ck_assert_int_eq(attach(b, &early, &of_b), 0);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_idle();
        ck_assert_int_eq(attach(b, &never, &of_b), 0);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_idle();
        ck_assert_int_eq(attach(c, &late, &of_c), 0);
        give_back(c, of_c, RETURN_UNMAPPED);
        expect_gone(&held);
}

POLICY_TEST(a_tenants_limit_counts_it, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);

        ck_assert_int_eq(policy_set_limit(world.policy, LIMIT_OF_TENANT, POLICY_EVERY_UID,
                                          LIMIT_DEVICE_BYTES, 6 * MIB, world.now_ns),
                         0);
        (void)share(a, &held, 1, KEEP_NS);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ask(b, 1, 4 * MIB, 0);
        expect_refusal(b, 1, GPUMEM_E_LIMIT);
        expire(world.now_ns + KEEP_NS);
        expect_gone(&held);
        ask(b, 2, 4 * MIB, 0);
        ck_assert_uint_eq(take(ACTION_CREATE).serial, 2);
}

POLICY_TEST(what_is_kept_is_no_deadlock, 12 * MIB)
{
        struct client *a = join(1), *b = join(2), *c = join(3);
        struct held held = hold_shareable(a, 4 * MIB);

        (void)share(a, &held, 1, KEEP_NS);
        give_back(a, held.lease, RETURN_UNMAPPED);
        (void)hold(b, 4 * MIB);
        (void)hold(c, 4 * MIB);
        ask(b, 1, 4 * MIB, UINT64_MAX);
        ask(c, 2, 4 * MIB, UINT64_MAX);
        expect_idle();
        expire(world.now_ns + KEEP_NS);
        expect_release(held.block);
        ck_assert_uint_eq(take(ACTION_CREATE).serial, 1);
}

POLICY_TEST(a_daemon_that_ends_keeps_nothing, 8 * MIB)
{
        struct client *a = join(1);
        struct held held = hold_shareable(a, 4 * MIB);

        (void)share(a, &held, 1, KEEP_NS);
        give_back(a, held.lease, RETURN_UNMAPPED);
        policy_drain(world.policy, world.now_ns);
        policy_check(world.policy);
        expect_gone(&held);
}

POLICY_TEST(a_daemon_that_ends_begins_to_keep_nothing, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = share(a, &held, 1, KEEP_NS);
        struct lease *of_b;

        (void)share(a, &held, 2, KEEP_NS);
        ck_assert_int_eq(attach(b, &token, &of_b), 0);
        policy_shut_down(world.policy);
        policy_check(world.policy);
        give_back(a, held.lease, RETURN_UNMAPPED);
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_gone(&held);
}

POLICY_TEST(a_tenant_has_so_many, 128 * MIB)
{
        struct client *a = join(1);
        struct policy_share terms = {
                .n_bytes = 1000, .granted_uid = POLICY_NO_UID, .keep_ns = KEEP_NS};
        unsigned n = 0;
        int r = 0;

        while (!r) {
                struct held held = hold_shareable(a, 4 * MIB);

                for (unsigned i = 0; i < 64 && !r; i++) {
                        terms.token.bytes[0] = (uint8_t)n;
                        terms.token.bytes[1] = (uint8_t)(n >> 8);
                        r = policy_share(world.policy, a, held.id, &terms);
                        n += r == 0;
                }
                if (n % 64 == 0 && n < 1024)
                        give_back(a, held.lease, RETURN_UNMAPPED);
        }
        ck_assert_int_eq(r, GPUMEM_E_TOO_MANY);
        ck_assert_uint_eq(n, 1024);
        policy_check(world.policy);
}

/* A thousand leases may be counted each time. */
POLICY_TEST(all_that_begin_at_once_are_counted_once, 8 * MIB)
{
        struct client *a = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        uint64_t n_before;

        for (unsigned i = 0; i < 64; i++)
                (void)share(a, &held, (uint8_t)i, KEEP_NS);
        n_before = world.policy->n_counts;
        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_le(world.policy->n_counts, n_before + 2);
        expect_idle();
        expire(world.now_ns + KEEP_NS);
        expect_gone(&held);
}

/* A client that ends begins them as items of its steps. */
POLICY_TEST(a_client_that_ends_begins_them_in_parts, 16 * MIB)
{
        struct client *a = join(1);
        struct held held[2];

        for (unsigned i = 0; i < 2; i++)
                held[i] = hold_shareable(a, 4 * MIB);
        for (unsigned i = 0; i < 40; i++)
                (void)share(a, &held[i % 2], (uint8_t)i, KEEP_NS);
        ck_assert(policy_client_drop_some(world.policy, a, 16, world.now_ns));
        ck_assert_uint_eq(world.policy->keeps.n, 20);
        ck_assert(!policy_client_drop_some(world.policy, a, 16, world.now_ns));
        ck_assert_uint_eq(world.policy->keeps.n, 40);
        ck_assert(!policy_client_eof(world.policy, a, world.now_ns));
        ck_assert(policy_client_dead(world.policy, a, world.now_ns));
        expire(world.now_ns + KEEP_NS);
        expect_release(held[0].block);
        expect_release(held[1].block);
}

#define N_TENANTS 96

/* One block with 64 tokens, each of which is kept for less time than the one before. Other keeps end later. */
static void leave_kept(struct client *client, uint32_t pool, uint64_t *keep_ns)
{
        static uint64_t n_tokens;
        const struct policy_ask wanted = {.pool = pool,
                                          .n_bytes = 2 * MIB,
                                          .properties = POLICY_SHAREABLE,
                                          .deadline_ns = UINT64_MAX};
        struct policy_share terms = {.n_bytes = 1000, .granted_uid = POLICY_NO_UID};
        struct action action;

        policy_lease(world.policy, client, &wanted, world.now_ns);
        action = policy_next_action(world.policy);
        ck_assert_int_eq(action.kind, ACTION_CREATE);
        policy_created(world.policy, action.block, 0, &world, world.now_ns);
        action = policy_next_action(world.policy);
        ck_assert_int_eq(action.kind, ACTION_GRANT);
        for (unsigned i = 0; i < 64; i++) {
                n_tokens++;
                memcpy(terms.token.bytes, &n_tokens, sizeof(n_tokens));
                terms.keep_ns = --*keep_ns;
                ck_assert_int_eq(policy_share(world.policy, client, lease_id(action.lease), &terms),
                                 0);
        }
        ck_assert_int_eq(policy_return(world.policy, client, lease_id(action.lease),
                                       RETURN_UNMAPPED, world.now_ns),
                         0);
}

/* Any user has many tenants, and a thousand keeps of each. A return that began 64 keeps walked past all that ended later,
 * also those of other users: all of these together then took longer than the test may. */
POLICY_TEST(beginning_one_takes_no_longer_where_there_are_many, 8 * MIB)
{
        const struct policy_pool pinned = {.kind = POLICY_PINNED,
                                           .capacity_bytes = N_TENANTS * 32 * MIB,
                                           .max_bytes = N_TENANTS * 32 * MIB};
        uint64_t keep_ns = N_TENANTS * UINT64_C(1024) + 1, last_ns = 0;
        uint32_t pool;

        ck_assert_int_eq(policy_add_pool(world.policy, &pinned, &pool), 0);
        for (unsigned i = 0; i < N_TENANTS; i++) {
                struct client *client = join_in(1, 1000 + i, i);

                for (unsigned j = 0; j < 16; j++)
                        leave_kept(client, pool, &keep_ns);
        }
        while (policy_next_keep_end(world.policy) != UINT64_MAX) {
                ck_assert_uint_gt(policy_next_keep_end(world.policy), last_ns);
                last_ns = policy_next_keep_end(world.policy);
                policy_expire(world.policy, last_ns);
                while (policy_next_action(world.policy).kind != ACTION_NONE)
                        ;
        }
}

TESTS_MAIN("policy: keep", .limit_s = 20)
