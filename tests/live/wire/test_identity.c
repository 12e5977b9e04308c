/* SPDX-License-Identifier: Apache-2.0 */
/* How the daemon identifies its clients, on kernels of several ages, simulated by hiding newer calls. A
 * process is known until it has ended, and is charged once however often it connects. A process that cannot
 * be identified is told why. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/server/session/file_stock.h"
#include "proto/address.h"
#include "tests/live/support/old_kernel.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

#define N_BYTES (6 * MIB)

/* What the daemon finds, and where it is. */
enum world { WORLD_AS_IT_IS, WORLD_OF_OLD_KERNEL, WORLD_OF_OTHER_NAMESPACE, N_WORLDS };

/* A GPU's driver looks itself up in /proc, which is not of the other namespace. */
static bool has_namespaces(void)
{
        return machine_is_emulated() && pid_namespaces_are_allowed();
}

#define NEEDS_NAMESPACES \
        .can_run = has_namespaces, .needs = "CAP_SYS_ADMIN, and the emulated driver"

static int n_worlds(void)
{
        return has_namespaces() ? N_WORLDS : WORLD_OF_OTHER_NAMESPACE;
}

/* A process that was there before the daemon: in a world of two pid namespaces it is in the other one.
 * It waits for a word to begin, says when it has done its act, and lives until it is killed. */
struct actor {
        pid_t pid;
        int begin[2], done[2];
};

static void hold_and_leave(const struct actor *actor)
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = N_BYTES};
        struct message_leased leased;
        struct link *link = open_link("actor", NULL);

        (void)actor;
        if (lease_over(link, &wanted, &leased))
                _exit(1);
        link_free(link);
}

/* What it had is its own still, and so it says. */
static void come_back(const struct actor *actor)
{
        struct link_hello hello = {.program = "actor", .n_held_bytes = N_BYTES};
        struct fdset fds = FDSET_NULL;
        struct frame held = FRAME_NULL;
        struct message_welcome welcome;
        struct link *link;

        hold_and_leave(actor);
        link = open_link("actor", &welcome);
        hello.incarnation = welcome.incarnation;
        link_free(link);
        if (link_open(NULL, &hello, &link, &welcome, &fds))
                _exit(1);
        fdset_deinit(&fds);
        held.held.pool = 0;
        held.held.n_bytes = N_BYTES;
        if (link_send(link, &held, MESSAGE_HELD))
                _exit(1);
}

/* Its child has the connection as well, until the test has no more to say. */
static void hold_with_a_child(const struct actor *actor)
{
        char byte;
        int fd;

        (void)snprintf(gpumemd.socket, sizeof(gpumemd.socket), "%s", getenv("GPUMEM_SOCKET"));
        fd = connect_ready();
        (void)take_lease(fd, N_BYTES);
        if (fork() == 0) {
                (void)close(actor->done[1]);
                _exit(read(actor->begin[0], &byte, 1) != 0);
        }
}

static void start_actor(struct actor *actor, void (*act)(const struct actor *actor))
{
        char path[160] = "";

        ck_assert_int_eq(pipe2(actor->begin, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(actor->done, O_CLOEXEC), 0);
        actor->pid = fork();
        if (actor->pid == 0) {
                (void)close(actor->begin[1]);
                if (read(actor->begin[0], path, sizeof(path)) != sizeof(path) ||
                    setenv("GPUMEM_SOCKET", path, 1))
                        _exit(1);
                act(actor);
                if (write(actor->done[1], "x", 1) == 1)
                        (void)pause();
                _exit(1);
        }
}

static void let_act(const struct actor *actor)
{
        char path[160] = "", word;

        (void)snprintf(path, sizeof(path), "%s", gpumemd.socket);
        ck_assert_int_eq(write(actor->begin[1], path, sizeof(path)), sizeof(path));
        (void)close(actor->done[1]);
        ck_assert_int_eq(read(actor->done[0], &word, 1), 1);
}

static void end_actor(const struct actor *actor)
{
        ck_assert_int_eq(kill(actor->pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(actor->pid, NULL, 0), actor->pid);
}

static void start_world(enum world world, struct actor *actor,
                        void (*act)(const struct actor *actor))
{
        start_actor(actor, act);
        if (world == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        if (world == WORLD_OF_OTHER_NAMESPACE)
                enter_pid_namespace();
        /* A process in another pid namespace has no rights there otherwise. */
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", NULL, "{\"tenants\": \"uid\"}");
}

TEST(a_process_is_known_until_it_has_ended, .to = n_worlds())
{
        struct actor actor;

        start_world((enum world)_i, &actor, hold_and_leave);
        let_act(&actor);
        daemon_await(FIGURE_lingering, N_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), N_BYTES);
        end_actor(&actor);
}

/* The other sign first: the process is over, and what its child may do counts as its own. */
TEST(a_child_with_the_connection_keeps_the_charge, .to = n_worlds())
{
        struct actor actor;

        start_world((enum world)_i, &actor, hold_with_a_child);
        let_act(&actor);
        daemon_await(FIGURE_leased, N_BYTES);
        end_actor(&actor);
        daemon_await(FIGURE_lingering, N_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), N_BYTES);
        (void)close(actor.begin[1]);
}

TEST(a_process_that_comes_back_is_charged_once, .to = n_worlds())
{
        struct actor actor;

        start_world((enum world)_i, &actor, come_back);
        let_act(&actor);
        daemon_await(FIGURE_declared, N_BYTES);
        daemon_await(FIGURE_charged, N_BYTES);
        end_actor(&actor);
}

/* Root, too: the daemon cannot tell which namespace's root it is. */
/* Some have something left, and some cannot be asked. */
static const struct test_case stopped = {"stopped", .limit_s = 60, .stop = gpumemd_stop};

TEST(who_cannot_be_placed_is_a_tenant_of_its_own, .in = &stopped, NEEDS_NAMESPACES)
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = N_BYTES};
        struct message_leased first, second;
        struct link *one, *other;

        enter_pid_namespace();
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        one = open_link("one", NULL);
        other = open_link("other", NULL);
        ck_assert_int_eq(lease_over(one, &wanted, &first), 0);
        return_over(one, first.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, N_BYTES);
        ck_assert_int_eq(lease_over(other, &wanted, &second), 0);
        ck_assert_uint_ne(first.block, second.block);
        return_over(other, second.lease, PROTO_RETURN_UNMAPPED);
        ck_assert_int_eq(free_all_over(one, PROTO_SCOPE_NODE, PROTO_ALL_POOLS, NULL),
                         GPUMEM_E_DENIED);
        link_free(one);
        link_free(other);
}

/* The socket's file exists before a client may connect. */
static bool is_listened_to(void)
{
        struct sockaddr_un address;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
        (void)close(fd);
        return r == 0;
}

/* It serves no client, so no client can tell when it is ready. */
static void launch(unsigned hidden)
{
        old_kernel_hide(hidden);
        daemon_launch(&gpumemd, "devices=1,bytes=256MiB", NULL, "{}\n");
        AWAIT(is_listened_to());
}

static void expect_refusal(const char *why)
{
        int fd = connect_raw();
        struct frame frame = expect(fd, MESSAGE_ERROR);

        ck_assert_uint_eq(frame.serial, 0);
        ck_assert_uint_eq(frame.error.code, GPUMEM_E_DENIED);
        ck_assert_msg(strstr(frame.error.text, why), "\"%s\"", frame.error.text);
        expect_end(fd);
}

TEST(a_kernel_that_knows_no_process_is_named, .in = &stopped)
{
        launch(HIDE_PEERPIDFD | HIDE_PIDFD_OPEN);
        expect_refusal("Linux 5.3");
}

/* Whether the daemon has hung up before the first word or after it. */
TEST(a_program_is_told_why, .in = &stopped)
{
        struct gpumem_client *client;

        launch(HIDE_PEERPIDFD | HIDE_PIDFD_OPEN);
        for (unsigned i = 0; i < 200; i++) {
                ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_DENIED);
                last_refusal_says(NULL, GPUMEM_E_DENIED, "Linux 5.3");
        }
}

/* What the kernel names a process of another namespace is 0, which is anybody. */
TEST(another_namespace_needs_a_kernel_that_is_named, .in = &stopped, NEEDS_NAMESPACES)
{
        enter_pid_namespace();
        launch(HIDE_PEERPIDFD);
        expect_refusal("Linux 6.5");
}

/* The pid namespace of the daemon is its own and /proc is not: pids there are others'. */
TEST(nobody_is_looked_up_where_pids_are_others, .in = &stopped, NEEDS_NAMESPACES)
{
        struct frame frame;
        int fd;
        pid_t pid;

        enter_pid_namespace();
        launch(HIDE_PEERPIDFD);
        pid = fork();
        if (pid == 0) {
                fd = connect_raw();
                frame = expect(fd, MESSAGE_ERROR);
                _exit(!strstr(frame.error.text, "/proc of its own pid namespace"));
        }
        child_await(pid, 0);
}

/* What a connection is told while the daemon may have so many fds; "": it is taken in. */
static void knock(rlim_t n_fds, char ret_text[static 120])
{
        struct rlimit limit;
        struct frame hello = hello_frame(), frame;
        struct fdset fds = FDSET_NULL;
        int fd;

        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_NOFILE, NULL, &limit), 0);
        limit.rlim_cur = n_fds;
        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_NOFILE, &limit, NULL), 0);
        fd = connect_raw();
        proto_seal(&hello, MESSAGE_HELLO, 1, 0);
        (void)frame_socket_send(fd, &hello, NULL);
        ck_assert_int_eq(receive(fd, &frame, &fds), 0);
        ret_text[0] = '\0';
        if (frame.kind == MESSAGE_ERROR) {
                ck_assert_uint_eq(frame.error.code, GPUMEM_E_TOO_MANY);
                (void)snprintf(ret_text, 120, "%s", frame.error.text);
        }
        fdset_deinit(&fds);
        (void)close(fd);
}

/* Of the numbers that no file of the daemon's has, the second. */
static unsigned second_free_fd(void)
{
        unsigned number = 0, n_free = 0;
        char path[48];

        for (; n_free < 2; number++) {
                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)gpumemd.pid, number);
                n_free += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
        }
        return number - 1;
}

/* A fd short of a process to know is no reason to deny that there is one. The limit is on numbers: below the
 * second free one there is one for the connection, unless another thread of the daemon's has just taken it. */
TEST(a_daemon_without_a_fd_says_so, .in = &stopped, .to = WORLD_OF_OTHER_NAMESPACE)
{
        char text[120] = "?";
        bool lacked_pidfd = false;
        unsigned n_fds;

        if (_i == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        n_fds = daemon_quiet_fds(&gpumemd);
        for (unsigned i = 0; i < 20 && !lacked_pidfd; i++) {
                knock(second_free_fd(), text);
                lacked_pidfd = strcmp(text, "gpumemd has no file descriptor left") == 0;
                ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds);
        }
        ck_assert_msg(lacked_pidfd, "%s", text);
        knock(n_fds + 2 * FILE_STOCK_MAX + 16, text);
        ck_assert_str_eq(text, "");
}

/* Knocks and ends; its child hears what the daemon has to say, 'd' for DENIED. */
static void knock_and_end(int told)
{
        struct frame hello = hello_frame(), frame;
        struct fdset fds = FDSET_NULL;
        int fd = connect_raw();
        char word = '?';

        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        if (fork())
                _exit(0);
        if (receive(fd, &frame, &fds) == 0 && frame.kind == MESSAGE_ERROR &&
            frame.error.code == GPUMEM_E_DENIED)
                word = 'd';
        _exit(write(told, &word, 1) != 1);
}

/* It ends before the daemon opens. The child that has its connection may not speak for it. */
TEST(who_has_ended_is_not_taken_in, .in = &stopped, .to = WORLD_OF_OTHER_NAMESPACE)
{
        unsigned n_fds;
        int told[2];
        char word;
        pid_t pid;

        if (_i == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        n_fds = daemon_quiet_fds(&gpumemd);
        ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
        daemon_suspend(&gpumemd);
        pid = fork();
        if (pid == 0)
                knock_and_end(told[1]);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        daemon_resume(&gpumemd);
        ck_assert_int_eq(read(told[0], &word, 1), 1);
        ck_assert_int_eq(word, 'd');
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds);
}

/* Connects, and ends when it is told to; its child says HELLO when that is told to, and hears what the daemon has to say. */
static void connect_and_end(int end, int go, int told)
{
        struct frame hello = hello_frame(), frame;
        struct fdset fds = FDSET_NULL;
        int fd = connect_raw();
        char word = '?';

        if (fork())
                _exit(read(end, &word, 1) != 1);
        if (read(go, &word, 1) != 1)
                _exit(1);
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        if (receive(fd, &frame, &fds) == 0 && frame.kind == MESSAGE_ERROR &&
            frame.error.code == GPUMEM_E_DENIED &&
            strcmp(frame.error.text, "the process that connected has ended") == 0)
                word = 'd';
        _exit(write(told, &word, 1) != 1);
}

TEST(who_has_ended_before_its_hello_is_told_so, .in = &stopped, .to = WORLD_OF_OTHER_NAMESPACE)
{
        int end[2], go[2], told[2];
        unsigned n_fds;
        char word = 'g';
        pid_t pid;

        if (_i == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        n_fds = daemon_quiet_fds(&gpumemd);
        ck_assert_int_eq(pipe2(end, O_CLOEXEC) || pipe2(go, O_CLOEXEC) || pipe2(told, O_CLOEXEC),
                         0);
        pid = fork();
        if (pid == 0)
                connect_and_end(end[0], go[0], told[1]);
        while (daemon_quiet_fds(&gpumemd) == n_fds)
                continue;
        ck_assert_int_eq(write(end[1], &word, 1), 1);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_int_eq(write(go[1], &word, 1), 1);
        ck_assert_int_eq(read(told[0], &word, 1), 1);
        ck_assert_int_eq(word, 'd');
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds);
}

TESTS_MAIN("identity", .limit_s = 60, .stop = gpumemd_stop_empty)
