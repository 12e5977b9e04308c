/* SPDX-License-Identifier: Apache-2.0 */
/* Idle leases change hands without their holder's help: within a tenant, for its limit, back to the process that had
 * them, and between tenants up to the minimum. */
#include "base/err.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "proto/board.h"
#include "tests/unit/policy/policy_world.h"

/* The number of scans is limited, and each search continues where the last one ended. */
POLICY_TEST(many_busy_leases_do_not_hide_an_idle_one, 100 * GIB)
{
        struct client *holders[2 * REVOKE_IDLE_SCANS_A_REQUEST / WORLD_N_SLOTS + 1];
        struct client *b = join(1);
        struct held last;
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(holders); i++) {
                holders[i] = join(1);
                for (unsigned j = 0; j < WORLD_N_SLOTS; j++, n++)
                        last = hold(holders[i], 2 * MIB);
        }
        ck_assert_uint_gt(n, 2 * REVOKE_IDLE_SCANS_A_REQUEST);
        mark_idle(holders[ARRAY_SIZE(holders) - 1], last.lease);
        for (uint32_t i = 0; i < 2; i++) {
                ask(b, i, 2 * MIB, 0);
                expect_cancelled(b, i);
        }
        expect_served(b, 2, 2 * MIB, 0, last.block);
}

POLICY_TEST(idle_leases_give_way_to_their_tenants_limit, 100 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held[] = {hold(a, 4 * MIB), hold(a, 8 * MIB), hold(a, 4 * MIB)};

        set_limit(LIMIT_OF_TENANT, POLICY_EVERY_UID, LIMIT_DEVICE_BYTES, 16 * MIB);
        mark_idle(a, held[0].lease);
        mark_idle(a, held[1].lease);
        /* A block that serves the request changes hands. */
        expect_served(b, 1, 8 * MIB, 0, held[1].block);
        ck_assert(!was_revoked(a, held[0].lease));
        /* A block that does not is cached then. */
        expect_new(b, 2, 2 * MIB, 0);
        ck_assert(was_revoked(a, held[0].lease));
        expect_totals(14 * MIB, 4 * MIB, 0);
        /* Blocks that would not be enough stay. */
        mark_idle(a, held[2].lease);
        expect_refused(b, 3, 16 * MIB, 0, GPUMEM_E_LIMIT);
        ck_assert(!was_revoked(a, held[2].lease));
}

POLICY_TEST(where_there_is_none_it_comes_back_after_a_while, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held first = hold_idle(a, 16 * MIB);

        ask(b, 7, 16 * MIB, world.now_ns + REVOKE_IDLE_OTHERS_NS);
        mark_idle(b, expect_grant(b, 7));
        unmap(a, first.id);
        expect_wait(a, 1, 16 * MIB, UINT64_MAX);
        /* Nor through the driver, for another size. */
        expect_wait(a, 2, 4 * MIB, UINT64_MAX);
        later(REVOKE_IDLE_BACK_NS - 1);
        expect_idle();
        later(1);
        ck_assert_ptr_eq(take(ACTION_GRANT).block, first.block);
}

static void set_min(uint64_t min_bytes)
{
        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, min_bytes, world.now_ns), 0);
        policy_check(world.policy);
}

/* Leases in use count, too. */
POLICY_TEST(a_tenant_keeps_its_minimum, 24 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held busy = hold(a, 8 * MIB), first = hold(a, 8 * MIB);
        struct held second = hold(a, 8 * MIB);

        set_min(18 * MIB);
        mark_idle(a, first.lease);
        mark_idle(a, second.lease);
        expect_wait(b, 1, 8 * MIB, UINT64_MAX);
        set_min(16 * MIB);
        expect_taken(a, &first);
        unmap(a, first.id);
        (void)take(ACTION_CREATE);
        ask(b, 2, 8 * MIB, UINT64_MAX);
        later(REVOKE_IDLE_OTHERS_NS);
        expect_idle();
        ck_assert(!was_revoked(a, second.lease));
        ck_assert(!was_revoked(a, busy.lease));
}

/* Several leases are taken at a time, but not too many. */
POLICY_TEST(the_minimum_is_kept_in_one_go_too, 24 * MIB)
{
        struct client *a = join(1), *b = join(2), *kin = join(1);
        struct held held[3];

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                held[i] = hold_idle(a, 8 * MIB);
        }
        set_min(10 * MIB);
        expect_wait(b, 1, 12 * MIB, UINT64_MAX);
        expect_cancelled(b, 1);
        /* Processes of the same tenant take what they need. */
        ask(kin, 1, 24 * MIB, UINT64_MAX);
        for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
                expect_taken(a, &held[i]);
        }
}

TESTS_MAIN("policy: revoke_idle")
