/* SPDX-License-Identifier: Apache-2.0 */
/* The table of limits: of each client and tenant, and of those that one uid's tenants have. */
#include "daemon/policy/state/limits.h"

#include <errno.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

static struct limits *table;

static void start(void)
{
        ck_assert_int_eq(limits_new(&table), 0);
}

static void stop(void)
{
        table = limits_free(table);
}

static void set(uint32_t uid, uint64_t max)
{
        ck_assert_int_eq(limits_set_uid(table, uid, LIMIT_LEASES, max), 0);
        limits_check(table);
}

TEST(without_any_there_is_none)
{
        ck_assert_uint_eq(limits_find_uid(table, 7), 0);
        ck_assert_uint_eq(limits_own_max(table, 7, LIMIT_LEASES), LIMIT_INHERIT);
        ck_assert_uint_eq(limits_tenant_max(table, 7, LIMIT_LEASES), LIMIT_NONE);
        table->tenant.max[LIMIT_LEASES] = 5;
        ck_assert_uint_eq(limits_tenant_max(table, 7, LIMIT_LEASES), 5);
}

/* The order is that of the search. */
TEST(uids_stand_in_their_order)
{
        static const uint32_t uids[] = {1000, UINT32_MAX - 1, 0, 7, 1001, 999};
        static const uint32_t ordered[] = {0, 7, 999, 1000, 1001, UINT32_MAX - 1};

        for (size_t i = 0; i < ARRAY_SIZE(uids); i++)
                set(uids[i], uids[i]);
        ck_assert_uint_eq(table->n_uids, ARRAY_SIZE(ordered));
        for (size_t i = 0; i < ARRAY_SIZE(ordered); i++) {
                ck_assert_uint_eq(table->uids[i].uid, ordered[i]);
                ck_assert_uint_eq(limits_find_uid(table, ordered[i]), i);
                ck_assert_uint_eq(limits_own_max(table, ordered[i], LIMIT_LEASES), ordered[i]);
        }
}

/* Beside each, below the first and above the last. */
TEST(who_is_not_there_is_not_found, .to = 9)
{
        for (int i = 0; i < _i; i++)
                set(10 * (uint32_t)i + 10, 1);
        for (uint32_t uid = 5; uid < 110; uid += 10)
                ck_assert_uint_eq(limits_find_uid(table, uid), table->n_uids);
        ck_assert_uint_eq(table->n_uids, (size_t)_i);
}

TEST(a_uid_has_one_place_and_each_kind_its_own_limit)
{
        set(8, 3);
        set(9, 4);
        ck_assert_int_eq(limits_set_uid(table, 8, LIMIT_DEVICE_BYTES, 77), 0);
        set(8, LIMIT_NONE);
        ck_assert_uint_eq(table->n_uids, 2);
        ck_assert_uint_eq(limits_own_max(table, 8, LIMIT_DEVICE_BYTES), 77);
        ck_assert_uint_eq(limits_own_max(table, 8, LIMIT_PINNED_BYTES), LIMIT_INHERIT);
        ck_assert_uint_eq(limits_tenant_max(table, 8, LIMIT_LEASES), LIMIT_NONE);
        ck_assert_uint_eq(limits_own_max(table, 9, LIMIT_LEASES), 4);
        table->tenant.max[LIMIT_LEASES] = 5;
        set(8, LIMIT_INHERIT);
        ck_assert_uint_eq(limits_tenant_max(table, 8, LIMIT_LEASES), 5);
}

TEST(without_memory_nothing_changes)
{
        int r;

        set(8, 3);
        n_until_failure = 0;
        r = limits_set_uid(table, 7, LIMIT_LEASES, 1);
        n_until_failure = -1;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert_uint_eq(table->n_uids, 1);
        ck_assert_uint_eq(limits_own_max(table, 8, LIMIT_LEASES), 3);
}

TESTS_MAIN("limits", .start = start, .stop = stop)
