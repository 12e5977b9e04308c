/* SPDX-License-Identifier: Apache-2.0 */
/* Limits as they are listed and set: what is rounded, and who sees those of tenants that are not
 * there. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/links.h"
#include "tests/suite.h"

#define STRANGER 65534
#define ABSENT   77

static struct daemon gpumemd;
static unsigned n_daemon_fds;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
}

static void stop(void)
{
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        daemon_stop(&gpumemd);
}

/* The limit that is in force then. */
static uint64_t set_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                          uint64_t max)
{
        const struct message_set_limits change = {
                .scope = scope, .holder = holder, .kind = kind, .max = max};
        uint64_t in_force = 0;

        ck_assert_int_eq(set_limit_over(link, &change, &in_force), 0);
        return in_force;
}

static unsigned rows_of(struct link *link, uint32_t scope, uint32_t holder,
                        struct limit_row *ret_row)
{
        return find_limit(link, scope, holder, ANY_LIMIT, ret_row);
}

TEST(a_pools_limit_is_whole_blocks)
{
        struct link *link = open_admin_link("test");
        struct limit_row row;
        uint64_t whole;

        ck_assert_uint_eq(rows_of(link, PROTO_LIMIT_OF_POOL, 0, &row), 1);
        whole = row.max;
        ck_assert_uint_eq(
                set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 5 * MIB + 1),
                4 * MIB);
        ck_assert_uint_eq(rows_of(link, PROTO_LIMIT_OF_POOL, 0, &row), 1);
        ck_assert_uint_eq(row.max, 4 * MIB);
        ck_assert_uint_eq(set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES,
                                    PROTO_LIMIT_NONE),
                          whole);
        link_free(link);
}

static int send_change(struct link *link, uint32_t kind, uint64_t max, uint32_t flags)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.set_limits = (struct message_set_limits){
                .scope = PROTO_LIMIT_OF_POOL, .kind = kind, .max = max, .flags = flags};
        return link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds);
}

/* In the order in which they are sent, the minimum first or last. */
static int send_pair(struct link *link, uint64_t min, uint64_t max, bool min_first, uint32_t flags)
{
        uint32_t first = min_first ? PROTO_LIMIT_MIN_BYTES : PROTO_LIMIT_RESERVED_BYTES;
        uint32_t last = min_first ? PROTO_LIMIT_RESERVED_BYTES : PROTO_LIMIT_MIN_BYTES;

        ck_assert_int_eq(send_change(link, first, min_first ? min : max, PROTO_LIMIT_MORE), 0);
        return send_change(link, last, min_first ? max : min, flags);
}

/* The pool's row of the minimum comes last, if there is one. */
static void check_minimum(struct link *link, uint64_t min)
{
        struct limit_row row;

        ck_assert_uint_eq(rows_of(link, PROTO_LIMIT_OF_POOL, 0, &row), min ? 2 : 1);
        if (min)
                ck_assert_uint_eq(row.max, min);
}

TEST(what_is_made_together_is_checked_together, .to = 2)
{
        bool min_first = _i;
        struct link *link = open_admin_link("test");

        (void)set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 16 * MIB);
        ck_assert_int_eq(send_pair(link, 8 * MIB, 4 * MIB, min_first, 0), GPUMEM_E_BAD_REQUEST);
        check_minimum(link, 0);
        ck_assert_uint_eq(set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_MIN_BYTES, 16 * MIB),
                          16 * MIB);
        ck_assert_int_eq(send_pair(link, 32 * MIB, 64 * MIB, min_first, PROTO_LIMIT_CHECK), 0);
        check_minimum(link, 16 * MIB);
        ck_assert_int_eq(send_pair(link, 32 * MIB, 64 * MIB, min_first, 0), 0);
        check_minimum(link, 32 * MIB);
        ck_assert_int_eq(send_pair(link, 6 * MIB, 8 * MIB, min_first, 0), 0);
        check_minimum(link, 6 * MIB);
        /* A pool may be made smaller whatever is kept there. */
        (void)set_limit(link, PROTO_LIMIT_OF_POOL, 0, PROTO_LIMIT_RESERVED_BYTES, 4 * MIB);
        check_minimum(link, 6 * MIB);
        link_free(link);
}

TEST(one_that_is_refused_takes_those_before_it_along)
{
        struct link *link = open_admin_link("test");

        ck_assert_int_eq(send_change(link, PROTO_LIMIT_MIN_BYTES, 8 * MIB, PROTO_LIMIT_MORE), 0);
        ck_assert_int_eq(send_change(link, PROTO_LIMIT_LEASES, 1, PROTO_LIMIT_MORE),
                         GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(send_change(link, PROTO_LIMIT_RESERVED_BYTES, 16 * MIB, 0), 0);
        check_minimum(link, 0);
        for (unsigned i = 0; i < PROTO_LIMIT_CHANGES_MAX; i++)
                ck_assert_int_eq(
                        send_change(link, PROTO_LIMIT_MIN_BYTES, 8 * MIB, PROTO_LIMIT_MORE), 0);
        ck_assert_int_eq(send_change(link, PROTO_LIMIT_MIN_BYTES, 8 * MIB, 0), GPUMEM_E_TOO_MANY);
        check_minimum(link, 0);
        /* What is not finished goes with its connection. */
        ck_assert_int_eq(send_change(link, PROTO_LIMIT_MIN_BYTES, 8 * MIB, PROTO_LIMIT_MORE), 0);
        link_free(link);
        link = open_admin_link("test");
        check_minimum(link, 0);
        link_free(link);
}

/* Exit status 0 if the tenant that is absent is not to be seen. */
static int look_as_stranger(void)
{
        struct limit_row row;

        if (setresgid(STRANGER, STRANGER, STRANGER) || setresuid(STRANGER, STRANGER, STRANGER))
                return 1;
        return rows_of(open_link("test", NULL), PROTO_LIMIT_OF_TENANT, ABSENT, &row) ? 2 : 0;
}

TEST(an_absent_tenant_is_the_administrators_to_see, NEEDS_ROOT)
{
        struct link *link = open_admin_link("test");
        struct limit_row row;
        int status = -1;
        pid_t pid;

        (void)set_limit(link, PROTO_LIMIT_OF_TENANT, ABSENT, PROTO_LIMIT_LEASES, 3);
        ck_assert_uint_eq(rows_of(link, PROTO_LIMIT_OF_TENANT, ABSENT, &row), 1);
        ck_assert_uint_eq(row.max, 3);
        ck_assert_uint_eq(row.used, 0);
        daemon_admit_all(&gpumemd);
        pid = fork();
        if (pid == 0)
                _exit(look_as_stranger());
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        link_free(link);
}

TESTS_MAIN("list_limits", .limit_s = 60, .start = start, .stop = stop)
