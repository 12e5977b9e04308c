/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are well-formed and yet not served, and callers who are not served at all: each has
 * its own answer, and nothing comes of it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

/* Somebody who is neither root nor who runs the daemon. */
#define STRANGER 65534

static struct daemon gpumemd;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
}

static void stop(void)
{
        daemon_stop_empty(&gpumemd);
}

static struct link *connect_link(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "test", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        return link;
}

static int take_lease(struct link *link, uint32_t properties, uint64_t *ret_lease)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = 2 * MIB;
        request.lease.properties = properties;
        r = link_call(link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        fdset_deinit(&fds);
        if (!r)
                *ret_lease = reply.leased.lease;
        return r;
}

static int free_all(struct link *link, uint32_t scope, uint32_t pool)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.free_all_blocks.scope = scope;
        request.free_all_blocks.pool = pool;
        return link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
}

TEST(rdma_and_fabric_are_not_served_yet)
{
        struct link *link = connect_link();
        uint64_t lease;

        for (uint32_t bit = PROTO_PROPERTY_RDMA; bit & PROTO_PROPERTIES; bit <<= 1)
                ck_assert_int_eq(take_lease(link, bit, &lease), GPUMEM_E_UNSUPPORTED);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
        link_free(link);
}

TEST(pools_that_are_not_there_are_not_freed)
{
        struct link *link = connect_link();

        ck_assert_int_eq(free_all(link, PROTO_SCOPE_TENANT, PROTO_POOLS_MAX), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(free_all(link, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS - 1), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(free_all(link, PROTO_SCOPE_TENANT, 1), 0);
        link_free(link);
}

/* What has no answer has a serial too, so that an ERROR about it is not about the connection. */
TEST(the_library_survives_an_error_that_nobody_waits_for)
{
        struct frame frame = FRAME_NULL;
        struct link *link = connect_link();

        frame.return_lease.lease = 12345;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_RETURN), 0);
        ck_assert_int_eq(free_all(link, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
        link_free(link);
}

/* Nor does one that only sends fill the socket with them until both sides wait for each other. */
TEST(the_library_takes_errors_off_the_socket_as_it_sends)
{
        struct frame frame = FRAME_NULL;
        struct link *link = connect_link();

        for (unsigned i = 0; i < 5000; i++) {
                frame.return_lease.lease = 12345;
                ck_assert_int_eq(link_send(link, &frame, MESSAGE_RETURN), 0);
        }
        ck_assert_int_eq(free_all(link, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
        link_free(link);
}

TEST(bad_questions_about_figures_are_told_apart)
{
        static const struct {
                enum gpumem_kind kind;
                int32_t place;
                size_t struct_size;
                int result;
        } cases[] = {
                {GPUMEM_PINNED, 0, sizeof(struct gpumem_stats), 0},
                {GPUMEM_PINNED, 1000, sizeof(struct gpumem_stats), GPUMEM_E_NO_POOL},
                {GPUMEM_DEVICE, 1000, sizeof(struct gpumem_stats), GPUMEM_E_NO_POOL},
                {(enum gpumem_kind)9, 0, sizeof(struct gpumem_stats), GPUMEM_E_BAD_REQUEST},
                {GPUMEM_DEVICE, GPUMEM_NEAREST, sizeof(struct gpumem_stats), GPUMEM_E_NO_CONTEXT},
                {GPUMEM_PINNED, 0, 0, -EINVAL},
                {GPUMEM_PINNED, 0, sizeof(struct gpumem_stats) + 8, -EINVAL},
        };
        struct gpumem_client *client;

        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct gpumem_stats stats = {.struct_size = cases[i].struct_size, .n_hits = 77};

                ck_assert_int_eq(gpumem_get_stats(client, cases[i].kind, cases[i].place, &stats),
                                 cases[i].result);
                ck_assert_uint_eq(stats.n_hits, cases[i].result ? 77 : 0);
        }
        gpumem_disconnect(client);
}

/* Runs `holds` as a stranger, in a process of its own. */
static void as_stranger(bool (*holds)(void))
{
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(setresgid(STRANGER, STRANGER, STRANGER) == 0 &&
                                      setresuid(STRANGER, STRANGER, STRANGER) == 0 && holds()
                              ? 0
                              : 1);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
}

static bool is_denied(void)
{
        struct gpumem_client *client;

        return gpumem_connect(NULL, &client) == GPUMEM_E_DENIED;
}

static bool frees_its_own_only(void)
{
        struct link *link = connect_link();

        return free_all(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS) == GPUMEM_E_DENIED &&
               free_all(link, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS) == 0;
}

TEST(a_stranger_may_not_connect, NEEDS_ROOT)
{
        ck_assert_int_eq(chmod(gpumemd.place, 0711), 0);
        as_stranger(is_denied);
}

TEST(a_guest_frees_its_own_blocks_only, NEEDS_ROOT)
{
        struct link *link = connect_link();
        struct frame frame = FRAME_NULL;

        ck_assert_int_eq(take_lease(link, 0, &frame.return_lease.lease), 0);
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_RETURN), 0);
        daemon_await(FIGURE_cached, 2 * MIB);
        daemon_admit_all(&gpumemd);
        as_stranger(frees_its_own_only);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
        link_free(link);
}

/* Only root can become somebody else. */

TESTS_MAIN("requests", .limit_s = 60, .start = start, .stop = stop)
