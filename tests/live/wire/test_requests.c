/* SPDX-License-Identifier: Apache-2.0 */
/* Rights: which client may connect to which socket, and ask what there. Valid requests that are not served,
 * and clients that are not served at all: each gets its own error, and nothing changes. */
#include <errno.h>
#include <sys/stat.h>

#include "tests/live/support/world.h"

/* A uid that is neither root nor the daemon's user. */
#define STRANGER 65534

static struct link *own;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
        own = open_link("test", NULL);
}

static void stop(void)
{
        link_free(own);
        gpumemd_stop_empty();
}

static int free_all(uint32_t scope, uint32_t pool)
{
        return free_all_over(own, scope, pool, NULL);
}

TEST(pools_that_are_not_there_are_not_freed)
{
        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, PROTO_POOLS_MAX), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, PROTO_ALL_POOLS - 1), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, 1), 0);
}

/* What has no answer has a serial too, so that an ERROR about it is not about the connection. Nor does one that only
 * sends fill the socket with them until both sides wait for each other. */
TEST(the_library_survives_errors_that_nobody_waits_for)
{
        for (unsigned i = 0; i < 5000; i++) {
                return_over(own, 12345, 0);
                if (i == 0)
                        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
        }
        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
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
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct gpumem_stats stats = {.struct_size = cases[i].struct_size, .n_hits = 77};

                ck_assert_int_eq(gpumem_get_stats(client, cases[i].kind, cases[i].place, &stats),
                                 cases[i].result);
                ck_assert_uint_eq(stats.n_hits, cases[i].result ? 77 : 0);
        }
        gpumem_disconnect(client);
}

static void be_denied(const void *unused)
{
        struct gpumem_client *client;

        (void)unused;
        ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_DENIED);
}

TEST(a_stranger_may_not_connect, NEEDS_ROOT)
{
        ck_assert_int_eq(chmod(gpumemd.place, 0711), 0);
        as_user(STRANGER, be_denied, NULL);
}

static void free_its_own_only(const void *unused)
{
        (void)unused;
        own = open_link("stranger", NULL);
        ck_assert_int_eq(free_all(PROTO_SCOPE_NODE, PROTO_ALL_POOLS), GPUMEM_E_DENIED);
        ck_assert_int_eq(free_all(PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
}

TEST(a_guest_frees_its_own_blocks_only, NEEDS_ROOT)
{
        const struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(own, &wanted, &leased), 0);
        return_over(own, leased.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, 2 * MIB);
        daemon_admit_all(&gpumemd);
        as_user(STRANGER, free_its_own_only, NULL);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
}

static mode_t mode_of(const char *path)
{
        struct stat status;

        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert(S_ISSOCK(status.st_mode));
        ck_assert_uint_eq(status.st_uid, geteuid());
        return status.st_mode & 07777;
}

TEST(each_socket_has_its_mode)
{
        ck_assert_uint_eq(mode_of(gpumemd.socket), 0660);
        ck_assert_uint_eq(mode_of(daemon_admin_socket()), 0600);
}

static const struct test_case own_daemons = {"own_daemons", .limit_s = 60,
                                             .stop = gpumemd_stop_uncharged};

/* What each act of an administrator's comes to over that socket. */
static void expect_acts(const char *socket, int r)
{
        const struct message_set_limits change = {.scope = PROTO_LIMIT_OF_TENANT,
                                                  .holder = STRANGER,
                                                  .kind = PROTO_LIMIT_LEASES,
                                                  .max = 7};
        struct link *link = open_link_at(socket, "test", NULL);

        ck_assert_int_eq(free_all_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS, NULL), r);
        ck_assert_int_eq(reset_peaks_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS), r);
        ck_assert_int_eq(set_limit_over(link, &change, NULL), r);
        link_free(link);
}

/* The daemon is that user's: its programs rule over the admin socket only. */
/* A clone in root's own home is closed to other users. */
static bool may_be_started_by_a_stranger(void)
{
        int status;
        pid_t pid;

        if (geteuid() != 0)
                return true;
        pid = fork();
        if (pid == 0)
                _exit(setgid(STRANGER) || setuid(STRANGER) ||
                      access(getenv("GPUMEM_TEST_DAEMON"), X_OK));
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(what_concerns_all_is_asked_over_the_admin_socket, .in = &own_daemons,
     .can_run = may_be_started_by_a_stranger, .needs = "a build folder that all users may enter")
{
        if (geteuid() == 0) {
                ck_assert_int_eq(setresgid(STRANGER, STRANGER, STRANGER), 0);
                ck_assert_int_eq(setresuid(STRANGER, STRANGER, STRANGER), 0);
        }
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        expect_acts(gpumemd.socket, GPUMEM_E_DENIED);
        expect_acts(daemon_admin_socket(), 0);
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
                              : link_open(socket, &(struct link_hello){.program = "other"}, &link,
                                          &welcome, &fds));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(a_group_may_connect, .in = &own_daemons, NEEDS_ROOT)
{
        struct stat status;

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--group", "4711"));
        ck_assert_int_eq(chmod(gpumemd.place, 0711), 0);
        ck_assert_int_eq(stat(gpumemd.socket, &status), 0);
        ck_assert_uint_eq(status.st_gid, 4711);
        ck_assert_int_eq(connect_as(STRANGER, 4711, gpumemd.socket), 0);
        ck_assert_int_eq(connect_as(STRANGER, 4712, gpumemd.socket), GPUMEM_E_DENIED);
        ck_assert_int_eq(connect_as(STRANGER, 4711, daemon_admin_socket()), GPUMEM_E_DENIED);
}

TESTS_MAIN("requests", .limit_s = 60, .start = start, .stop = stop)
