/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that SET_LIMITS changes or only checks, by whom, and how they are listed then. */
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/limits_world.h"
#include "tests/suite.h"

#define STRANGER 65534

TEST(set_limits_changes_one)
{
        struct link *link = open_admin_link("limited");
        uint64_t held;

        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH,
                                   PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_NONE),
                         0);
        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES,
                                   40 * MIB),
                         0);
        held = must_lease(link, 40 * MIB);
        give_back(link, held);
        ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES,
                                   PROTO_LIMIT_INHERIT),
                         0);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_TENANT, getuid(), PROTO_LIMIT_DEVICE_BYTES).max,
                24 * MIB);
        ck_assert_int_eq(lease(link, 40 * MIB, 0, &held), GPUMEM_E_LIMIT);
        ck_assert_int_eq(
                set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 16 * MIB), 0);
        ck_assert_int_eq(lease(link, 18 * MIB, 0, &held), GPUMEM_E_TOO_LARGE);
        link_free(link);
}

static int only_check(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                      uint64_t max)
{
        const struct message_set_limits change = {.scope = scope,
                                                  .holder = holder,
                                                  .kind = kind,
                                                  .max = max,
                                                  .flags = PROTO_LIMIT_CHECK};

        return set_limit_over(link, &change, NULL);
}

TEST(a_change_may_be_only_checked)
{
        struct link *link = open_admin_link("limited");

        ck_assert_int_eq(only_check(link, PROTO_LIMIT_OF_CLIENT, PROTO_LIMIT_OF_EACH,
                                    PROTO_LIMIT_DEVICE_BYTES, 2 * MIB),
                         0);
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_DEVICE_BYTES).max,
                16 * MIB);
        ck_assert_int_eq(
                only_check(link, PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB),
                GPUMEM_E_BAD_REQUEST);
        link_free(link);
}

TEST(an_exemption_is_listed)
{
        struct link *link = open_admin_link("limited");
        uint32_t uids[] = {getuid(), STRANGER};

        for (unsigned i = 0; i < ARRAY_SIZE(uids); i++) {
                struct limit_row row;

                ck_assert_int_eq(set_limit(link, PROTO_LIMIT_OF_TENANT, uids[i],
                                           PROTO_LIMIT_DEVICE_BYTES, PROTO_LIMIT_NONE),
                                 0);
                row = limit_of(link, PROTO_LIMIT_OF_TENANT, uids[i], PROTO_LIMIT_DEVICE_BYTES);
                ck_assert_uint_eq(row.max, PROTO_LIMIT_NONE);
        }
        ck_assert_uint_eq(
                limit_of(link, PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_DEVICE_BYTES).max,
                24 * MIB);
        link_free(link);
}

TEST(senseless_limits_are_refused)
{
        const struct {
                uint32_t scope, holder, kind;
                uint64_t max;
        } wrong[] = {
                {PROTO_LIMIT_OF_CLIENT, 0, PROTO_LIMIT_LEASES, 1},
                {PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_RESERVED_BYTES, 1},
                {PROTO_LIMIT_OF_CLIENT, NOBODY, PROTO_LIMIT_LEASES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_LEASES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES, UINT64_C(1) << 63},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_DEVICE_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, NOBODY, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, daemon_device_bytes() + MIB},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, PROTO_LIMIT_NONE},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, PROTO_LIMIT_INHERIT},
                {PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, daemon_device_bytes() + 1},
                {PROTO_LIMIT_OF_POOL, 77, PROTO_LIMIT_MIN_BYTES, MIB},
                {PROTO_LIMIT_OF_TENANT, NOBODY, PROTO_LIMIT_MIN_BYTES, MIB},
        };
        struct link *link = open_admin_link("limited");

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
                ck_assert_int_eq(set_limit(link, wrong[i].scope, wrong[i].holder, wrong[i].kind,
                                           wrong[i].max),
                                 GPUMEM_E_BAD_REQUEST);
        link_free(link);
}

/* What a user who is not the daemon's may do, as an exit status. */
static int as_stranger(void)
{
        struct link *link;
        int status = 0;

        if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
            setresuid(STRANGER, STRANGER, STRANGER))
                return 1;
        link = open_link("limited", NULL);
        if (set_limit(link, PROTO_LIMIT_OF_TENANT, STRANGER, PROTO_LIMIT_LEASES, 100) !=
            GPUMEM_E_DENIED)
                status |= 2;
        if (limit_of(link, PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES).max)
                status |= 4;
        if (limit_of(link, PROTO_LIMIT_OF_TENANT, STRANGER, PROTO_LIMIT_LEASES).max != 6)
                status |= 8;
        if (!limit_of(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES).max)
                status |= 16;
        link_free(link);
        return status;
}

/* Runs as root only: nobody else can become somebody. */
TEST(strangers_set_nothing, NEEDS_ROOT)
{
        struct link *link = open_admin_link("limited");
        int status;
        pid_t child;

        daemon_admit_all(&gpumemd);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
                _exit(as_stranger());
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_uint_eq(limit_of(link, PROTO_LIMIT_OF_TENANT, 0, PROTO_LIMIT_LEASES).max, 6);
        link_free(link);
}

TESTS_MAIN("set_limits", .limit_s = 60, .start = limits_start, .stop = limits_stop)
