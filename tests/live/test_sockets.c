/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect where, and ask what there. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "client/connection/link.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/suite.h"

/* Neither root nor, but where a test says so, who runs the daemon. */
#define STRANGER 65534

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
}

static void stop(void)
{
        daemon_stop(&gpumemd);
}

static const struct test_case tests_case = {"sockets", .limit_s = 60, .start = start, .stop = stop};

static mode_t mode_of(const char *path)
{
        struct stat status;

        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert(S_ISSOCK(status.st_mode));
        ck_assert_uint_eq(status.st_uid, geteuid());
        return status.st_mode & 07777;
}

TEST(each_socket_has_its_mode, .in = &tests_case)
{
        ck_assert_uint_eq(mode_of(gpumemd.socket), 0660);
        ck_assert_uint_eq(mode_of(daemon_admin_socket()), 0600);
}

/* What each act of an administrator's comes to over that socket. */
static void expect_acts(const char *socket, int r)
{
        struct fdset fds = FDSET_NULL;
        struct frame free_all = FRAME_NULL, reset = FRAME_NULL, set = FRAME_NULL, reply;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(socket, "test", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        free_all.free_all_blocks.scope = PROTO_SCOPE_NODE;
        free_all.free_all_blocks.pool = PROTO_ALL_POOLS;
        reset.reset_peaks.scope = PROTO_SCOPE_NODE;
        reset.reset_peaks.pool = PROTO_ALL_POOLS;
        set.set_limits = (struct message_set_limits){.scope = PROTO_LIMIT_OF_TENANT,
                                                     .holder = STRANGER,
                                                     .kind = PROTO_LIMIT_LEASES,
                                                     .max = 7};
        ck_assert_int_eq(
                link_call(link, &free_all, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds),
                r);
        ck_assert_int_eq(
                link_call(link, &reset, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET, &reply, &fds), r);
        ck_assert_int_eq(
                link_call(link, &set, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds), r);
        link_free(link);
}

/* The daemon is that user's: its programs rule over the admin socket only. */
TEST(what_concerns_all_is_asked_over_the_admin_socket)
{
        if (geteuid() == 0) {
                ck_assert_int_eq(setresgid(STRANGER, STRANGER, STRANGER), 0);
                ck_assert_int_eq(setresuid(STRANGER, STRANGER, STRANGER), 0);
        }
        start();
        expect_acts(gpumemd.socket, GPUMEM_E_DENIED);
        expect_acts(daemon_admin_socket(), 0);
        stop();
}

/* In another process: what connecting comes to there. */
static int connect_as(uid_t uid, gid_t gid, const char *socket)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(setgid(gid) || setuid(uid)
                              ? 255
                              : link_new(socket, "other", &link, &welcome, &fds));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(a_group_may_connect, NEEDS_ROOT)
{
        static const char *const options[] = {"--group", "4711", NULL};
        struct stat status;

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        ck_assert_int_eq(chmod(gpumemd.place, 0711), 0);
        ck_assert_int_eq(stat(gpumemd.socket, &status), 0);
        ck_assert_uint_eq(status.st_gid, 4711);
        ck_assert_int_eq(connect_as(STRANGER, 4711, gpumemd.socket), 0);
        ck_assert_int_eq(connect_as(STRANGER, 4712, gpumemd.socket), GPUMEM_E_DENIED);
        ck_assert_int_eq(connect_as(STRANGER, 4711, daemon_admin_socket()), GPUMEM_E_DENIED);
        stop();
}

TESTS_MAIN("own daemons", .limit_s = 60)
