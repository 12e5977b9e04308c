/* SPDX-License-Identifier: Apache-2.0 */
/* A client that may not open the GPU's files gets none of its memory, in any way. The daemon has a /dev of
 * its own here, so the tests need root. */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fdset.h"
#include "tests/live/support/sharer.h"
#include "tests/live/support/slow_socket.h"
#include "tests/live/support/world.h"

#define GUEST      12345
#define GUEST_TEXT "12345"
#define GROUP      777
#define FILE_NAME  "/dev/nvidiactl"

static bool bind_to(const char *from, const char *folder, const char *name)
{
        CLEANUP(closep)
        int fd = -1;
        char path[128];
        struct stat status;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (stat(from, &status))
                return false;
        if (S_ISDIR(status.st_mode))
                return mkdir(path, 0755) == 0 && mount(from, path, NULL, MS_BIND, NULL) == 0;
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        return fd >= 0 && mount(from, path, NULL, MS_BIND, NULL) == 0;
}

/* Like the machine's own, as far as daemon and emulator need it, but without its GPUs. */
static bool have_own_dev(void)
{
        char folder[] = "/tmp/gpumem-dev-XXXXXX";
        bool is_done;

        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            !mkdtemp(folder))
                return false;
        is_done = mount("none", folder, "tmpfs", 0, NULL) == 0 &&
                  bind_to("/dev/null", folder, "null") && bind_to("/dev/shm", folder, "shm") &&
                  mount(folder, "/dev", NULL, MS_MOVE, NULL) == 0;
        (void)rmdir(folder);
        return is_done;
}

static void put_file(mode_t mode, gid_t gid)
{
        CLEANUP(closep)
        int fd = open(FILE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(fchown(fd, 0, gid), 0);
        ck_assert_int_eq(fchmod(fd, mode), 0);
}

static void start(void)
{
        ck_assert(have_own_dev());
        put_file(0660, GROUP);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--pinned-bytes", "64MiB"));
        daemon_admit_all(&gpumemd);
}

static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 0);
        daemon_stop(&gpumemd);
}

/* What a refusal says. */
static const char
        *why = "uid 12345 may not use the GPU: /dev/nvidiactl has mode 0660, uid 0, gid 777";

static bool gets_lane;

/* Another socket is then the daemon's end of the connection. */
static void get_lane(struct link *link)
{
        int fd = 3;

        while (!is_connection(fd))
                fd++;
        make_slow(fd);
        while (!daemon_count_lanes(&gpumemd)) {
                struct frame request = FRAME_NULL, reply;
                struct fdset fds = FDSET_NULL;

                ck_assert_int_eq(
                        link_call(link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds),
                        0);
                fdset_deinit(&fds);
        }
}

/* The result of a LEASE of one block for the guest in these groups; its exit status. */
static int lease_as(const gid_t *groups, size_t n_groups, uint32_t pool)
{
        const struct message_lease wanted = {.pool = pool, .n_bytes = 2 * MIB};
        struct message_leased leased;
        char text[LINK_REFUSAL_MAX];
        struct link *link;
        int r;

        if (setgroups(n_groups, groups) || setresgid(GUEST, GUEST, GUEST) ||
            setresuid(GUEST, GUEST, GUEST))
                return 255;
        link = open_link("guest", NULL);
        if (gets_lane)
                get_lane(link);
        r = lease_over(link, &wanted, &leased);
        if (r) {
                link_refusal(link, text);
                if (!strstr(text, why))
                        r = 254;
        } else {
                return_over(link, leased.lease, PROTO_RETURN_UNMAPPED);
        }
        link_free(link);
        return r;
}

static int try_as(const gid_t *groups, size_t n_groups, uint32_t pool)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(lease_as(groups, n_groups, pool));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void expect(int result, const gid_t *groups, size_t n_groups, uint32_t pool)
{
        ck_assert_int_eq(try_as(groups, n_groups, pool), result);
}

/* The daemon does not check the files at each request. */
static void await(int result)
{
        AWAIT(try_as(NULL, 0, 0) == result);
}

#define NEEDS_OWN_DEV \
        .can_run = may_have_own_dev, .needs = "root, a /dev of its own, and the emulated driver"

static bool may_have_own_dev(void)
{
        int status = -1;
        pid_t pid;

        if (!is_root() || !machine_is_emulated())
                return false;
        pid = fork();
        if (pid == 0)
                _exit(!have_own_dev());
        return waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(who_may_not_open_them_is_leased_nothing, NEEDS_OWN_DEV)
{
        static const gid_t in[] = {5, GROUP}, out[] = {5, 6};

        expect(GPUMEM_E_DENIED, out, 2, 0);
        expect(GPUMEM_E_DENIED, NULL, 0, 0);
        expect(0, in, 2, 0);
        /* Memory that is not the driver's is for every user. */
        expect(0, NULL, 0, 1);
}

/* One in more groups than the daemon looks at is told so. */
TEST(so_many_groups_count, NEEDS_OWN_DEV)
{
        static gid_t groups[4097];

        for (unsigned i = 0; i < ARRAY_SIZE(groups); i++)
                groups[i] = GROUP + 4096 - i; /* the last one is it */
        expect(0, groups + 1, 4096, 0);
        why = "/dev/nvidiactl is for gid 777, and the process has more than 4096 groups";
        expect(GPUMEM_E_DENIED, groups, 4097, 0);
        expect(0, groups, 4097, 1);
        put_file(0666, GROUP);
        AWAIT(try_as(groups, 4097, 0) == 0);
}

/* They are asked of the socket that the client connected. */
TEST(no_groups_of_others_count_where_a_lane_has_its_socket, NEEDS_OWN_DEV)
{
        static const gid_t out[] = {5, 6};

        gets_lane = true;
        expect(GPUMEM_E_DENIED, out, 2, 0);
}

TEST(its_groups_count_where_a_lane_has_its_socket, NEEDS_OWN_DEV)
{
        static const gid_t in[] = {5, GROUP};

        gets_lane = true;
        expect(0, in, 2, 0);
}

TEST(what_changes_counts_soon, NEEDS_OWN_DEV)
{
        expect(GPUMEM_E_DENIED, NULL, 0, 0);
        put_file(0666, GROUP);
        await(0);
        put_file(0660, GROUP);
        await(GPUMEM_E_DENIED);
        /* A machine whose driver has other files, or an emulated one. */
        ck_assert_int_eq(unlink(FILE_NAME), 0);
        await(0);
}

TEST(a_grant_is_no_way_around_them, NEEDS_OWN_DEV)
{
        struct sharer owner, guest;
        char token[GPUMEM_TOKEN_TEXT_BYTES];

        sharer_start(&owner, SHARER_WITH_CUDA, NULL);
        sharer_start(&guest, SHARER_WITHOUT_CUDA, GUEST_TEXT);
        sharer_must(&owner, "alloc device %d", 1000000);
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "share " GUEST_TEXT));
        ck_assert_int_eq(sharer_tell(&guest, "attach device %s", token), GPUMEM_E_DENIED);
        daemon_await(FIGURE_leases, 1);
        sharer_end(&guest);
        sharer_end(&owner);
}

TEST(what_is_kept_for_others_stays_when_one_is_refused, NEEDS_OWN_DEV)
{
        struct sharer owner, guest, heir;
        char token[GPUMEM_TOKEN_TEXT_BYTES];

        sharer_start(&owner, SHARER_WITH_CUDA, NULL);
        sharer_start(&guest, SHARER_WITHOUT_CUDA, GUEST_TEXT);
        sharer_must(&owner, "alloc device %d", 1000000);
        sharer_must(&owner, "fill 1");
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "keep 60000 " GUEST_TEXT));
        sharer_end(&owner);
        daemon_await(FIGURE_clients, 0);
        ck_assert_int_eq(sharer_tell(&guest, "attach device %s", token), GPUMEM_E_DENIED);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 1);
        sharer_start(&heir, SHARER_WITH_CUDA, NULL);
        sharer_must(&heir, "attach device %s", token);
        ck_assert_str_eq(sharer_must(&heir, "check 1"), "0");
        sharer_end(&heir);
        sharer_end(&guest);
}

TESTS_MAIN("gpu_file_access", .limit_s = 60, .start = start, .stop = stop)
