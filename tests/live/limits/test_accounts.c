/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: a user's processes in one container take nothing from the user's other processes. */
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "daemon/fairness/users.h"
#include "tests/live/support/containers.h"
#include "tests/live/support/old_kernel.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

/* In the daemon: three fds for each connection, half of all fds are for connections, and a user has a third
 * of these. */
#define FILES_FOR_MANY 4096

static enum cgroup_tree tree;

static bool has_containers(void)
{
        return is_root() && containers_find_tree(&tree);
}

#define NEEDS_CONTAINERS \
        .can_run = has_containers, .needs = "root, and cgroups that may be written to"

static bool may_make_many(void)
{
        struct rlimit files;

        return has_containers() && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
               files.rlim_max >= FILES_FOR_MANY;
}

static bool may_make_pods(void)
{
        return machine_is_emulated() && pid_namespaces_are_allowed();
}

static void start(const char *configuration)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--device-bytes", "64MiB"), configuration);
}

static void end(void)
{
        daemon_stop(&gpumemd);
        containers_remove(tree);
}

/* From the n-th container. The daemon reads this process's cgroup before it answers. */
static int ready_in(unsigned n)
{
        int fd;

        container_enter(tree, n);
        fd = connect_ready();
        container_leave(tree);
        return fd;
}

static void must_be_refused_in(unsigned n)
{
        int fd;

        container_enter(tree, n);
        fd = connect_raw();
        expect_dropped(fd, 0, GPUMEM_E_TOO_MANY);
        container_leave(tree);
}

TEST(a_container_leaves_connections_for_the_others, NEEDS_CONTAINERS)
{
        start("{\"each_user\": {\"connections\": 4}}");
        for (unsigned i = 0; i < 4; i++)
                (void)ready_in(0);
        must_be_refused_in(0);
        for (unsigned i = 0; i < 4; i++)
                (void)ready_in(1);
        (void)connect_ready();
        end();
}

/* The one has a connection, the other many: it is served as often as all of these together. */
TEST(a_container_has_as_much_time_as_the_others, NEEDS_CONTAINERS)
{
        enum { N = 40 };
        int quiet, greedy[N];

        daemon_start_configured(&gpumemd, "devices=1,bytes=2GiB", OPTIONS("--device-bytes", "2GiB"),
                                "{}");
        quiet = ready_in(1);
        for (unsigned i = 0; i < N; i++)
                greedy[i] = ready_in(0);
        fill_cache(quiet, N_IN_LINE);
        fill_cache(greedy[0], N * N_IN_LINE);
        ck_assert_uint_lt(count_served_before(quiet, greedy, N), N * N_IN_LINE / 2);
        end();
}

static uint64_t lease_and_return(int fd)
{
        struct frame frame = lease_frame(0, 2 * MIB, 0);
        struct message_leased leased;

        send_frame(fd, &frame, MESSAGE_LEASE, 2);
        leased = expect(fd, MESSAGE_LEASED).leased;
        give_back(fd, leased.lease, PROTO_RETURN_UNMAPPED, 3);
        must_serve(fd);
        return leased.block;
}

#define N_OF_CHILD (ACCOUNTS_A_USER / 2)

/* A process may have fewer connections. A second process has other containers: its pid is in their names. */
static void hold_half(int ready, int until)
{
        char byte = 0;

        for (unsigned i = 0; i < N_OF_CHILD; i++)
                (void)ready_in(i);
        ck_assert_int_eq(write(ready, &byte, 1), 1);
        (void)!read(until, &byte, 1);
        containers_remove(tree);
        _exit(0);
}

TEST(a_user_has_so_many_containers_and_one_for_the_rest, .can_run = may_make_many,
     .needs = "root, cgroups that may be written to, and 4096 files")
{
        static int fds[ACCOUNTS_A_USER - N_OF_CHILD];
        int one, other, ready[2], until[2];
        uint64_t first, more;
        char byte;
        pid_t child;

        start("{}");
        ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(until, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
                closep(&until[1]);
                hold_half(ready[1], until[0]);
        }
        closep(&ready[1]);
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = ready_in(i);
        one = ready_in(ARRAY_SIZE(fds));
        other = ready_in(ARRAY_SIZE(fds) + 1);
        first = lease_and_return(fds[0]);
        more = lease_and_return(one);
        ck_assert_uint_ne(more, first);
        ck_assert_uint_eq(lease_and_return(other), more);
        ck_assert_uint_eq(lease_and_return(fds[0]), first);
        ck_assert_uint_ne(lease_and_return(fds[1]), first);
        closep(&until[1]);
        child_await(child, 0);
        end();
}

static void fill(void)
{
        for (unsigned i = 0; i < 4; i++)
                (void)connect_ready();
        expect_dropped(connect_raw(), 0, GPUMEM_E_TOO_MANY);
}

/* As in a pod: its processes have no pid here and no container. Another pod of the user has a network of
 * its own. */
TEST(a_pod_leaves_connections_for_other_pods_of_its_user, .can_run = may_make_pods,
     .needs = "CAP_SYS_ADMIN, and the emulated driver")
{
        enter_pid_namespace();
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", NULL,
                                "{\"tenants\": \"client\", \"each_user\": {\"connections\": 4}}");
        fill();
        ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
        fill();
        daemon_stop(&gpumemd);
}

TESTS_MAIN("accounts", .limit_s = 60)
