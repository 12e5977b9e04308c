/* Whom the daemon takes its clients for, on kernels of several ages, simulated by hiding what they lack:
 * a process is known until it has ended, is charged once however often it connects, and who cannot be
 * known is told why. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/old_kernel.h"
#include "tests/suite.h"

#define N_BYTES (6 * MIB)

/* What the daemon finds, and where it is. */
enum world { WORLD_AS_IT_IS, WORLD_OF_OLD_KERNEL, WORLD_OF_OTHER_NAMESPACE, N_WORLDS };

/* A process that was there before the daemon: in a world of two pid namespaces it is in the other one.
 * It waits for a word to begin, says when it has done its act, and lives until it is killed. */
struct actor {
        pid_t pid;
        int begin[2], done[2];
};

static void hold_and_leave(void)
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = N_BYTES};
        struct message_leased leased;
        struct link *link = open_link("actor", NULL);

        if (lease_over(link, &wanted, &leased))
                _exit(1);
        link_free(link);
}

/* What it had is its own still, and so it says. */
static void come_back(void)
{
        struct link_hello hello = {.program = "actor", .n_held_bytes = N_BYTES};
        struct fdset fds = FDSET_NULL;
        struct frame held = FRAME_NULL;
        struct message_welcome welcome;
        struct link *link;

        hold_and_leave();
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

static void start_actor(struct actor *actor, void (*act)(void))
{
        char path[160] = "";

        ck_assert_int_eq(pipe2(actor->begin, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(actor->done, O_CLOEXEC), 0);
        actor->pid = fork();
        if (actor->pid == 0) {
                if (read(actor->begin[0], path, sizeof(path)) != sizeof(path) ||
                    setenv("GPUMEM_SOCKET", path, 1))
                        _exit(1);
                act();
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

static void start_world(enum world world, struct actor *actor, void (*act)(void))
{
        start_actor(actor, act);
        if (world == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        if (world == WORLD_OF_OTHER_NAMESPACE)
                enter_pid_namespace();
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
}

static void end_world(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        daemon_stop(&gpumemd);
}

START_TEST(a_process_is_known_until_it_has_ended)
{
        struct actor actor;

        start_world((enum world)_i, &actor, hold_and_leave);
        let_act(&actor);
        daemon_await(FIGURE_lingering, N_BYTES);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), N_BYTES);
        end_actor(&actor);
        end_world();
}
END_TEST

START_TEST(a_process_that_comes_back_is_charged_once)
{
        struct actor actor;

        start_world((enum world)_i, &actor, come_back);
        let_act(&actor);
        daemon_await(FIGURE_declared, N_BYTES);
        daemon_await(FIGURE_charged, N_BYTES);
        end_actor(&actor);
        end_world();
}
END_TEST

/* It has nobody whom it serves, so nobody can say when it does. */
static void launch(unsigned hidden)
{
        old_kernel_hide(hidden);
        daemon_launch(&gpumemd, "devices=1,bytes=256MiB", NULL, "{}\n");
        for (unsigned ms = 0; access(gpumemd.socket, F_OK) && ms < 20000; ms += 5)
                sleep_ms(5);
}

static void expect_refusal(const char *why)
{
        struct frame frame;
        int fd = connect_raw();

        frame = expect(fd, MESSAGE_ERROR);
        ck_assert_uint_eq(frame.serial, 0);
        ck_assert_uint_eq(frame.error.code, GPUMEM_E_DENIED);
        ck_assert_msg(strstr(frame.error.text, why), "\"%s\"", frame.error.text);
        expect_end(fd);
        (void)close(fd);
}

START_TEST(a_kernel_that_knows_no_process_is_named)
{
        launch(HIDE_PEERPIDFD | HIDE_PIDFD_OPEN);
        expect_refusal("Linux 5.3");
        daemon_stop(&gpumemd);
}
END_TEST

/* Whether the daemon has hung up before the first word or after it. */
START_TEST(a_program_is_told_why)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *client;

        launch(HIDE_PEERPIDFD | HIDE_PIDFD_OPEN);
        for (unsigned i = 0; i < 200; i++) {
                ck_assert_int_eq(gpumem_connect(NULL, &client), GPUMEM_E_DISCONNECTED);
                ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
                ck_assert_msg(strstr(refusal.text, "Linux 5.3"), "\"%s\"", refusal.text);
        }
        daemon_stop(&gpumemd);
}
END_TEST

/* What the kernel names a process of another namespace is 0, which is anybody. */
START_TEST(another_namespace_needs_a_kernel_that_is_named)
{
        enter_pid_namespace();
        launch(HIDE_PEERPIDFD);
        expect_refusal("Linux 6.5");
        daemon_stop(&gpumemd);
}
END_TEST

/* The pid namespace of the daemon is its own and /proc is not: pids there are others'. */
START_TEST(nobody_is_looked_up_where_pids_are_others)
{
        struct frame frame;
        int status = -1, fd;
        pid_t pid;

        enter_pid_namespace();
        launch(HIDE_PEERPIDFD);
        pid = fork();
        if (pid == 0) {
                fd = connect_raw();
                frame = expect(fd, MESSAGE_ERROR);
                _exit(!strstr(frame.error.text, "/proc of its own pid namespace"));
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        daemon_stop(&gpumemd);
}
END_TEST

/* It knocks, and ends before the daemon opens: nobody is at the other end, or a child that has nothing to
 * say for it. */
START_TEST(who_has_ended_is_not_taken_in)
{
        struct frame hello = hello_frame();
        unsigned n_fds;
        pid_t pid;

        if (_i == WORLD_OF_OLD_KERNEL)
                old_kernel_hide(HIDE_PEERPIDFD);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        n_fds = daemon_quiet_fds(&gpumemd);
        ck_assert_int_eq(kill(gpumemd.pid, SIGSTOP), 0);
        pid = fork();
        if (pid == 0) {
                int fd = connect_raw();

                send_frame(fd, &hello, MESSAGE_HELLO, 1);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_int_eq(kill(gpumemd.pid, SIGCONT), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds);
        daemon_stop(&gpumemd);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("identity");
        TCase *tests = tcase_create("identity");
        int n_worlds = pid_namespaces_are_allowed() ? N_WORLDS : WORLD_OF_OTHER_NAMESPACE;

        tcase_set_timeout(tests, 60);
        tcase_add_loop_test(tests, a_process_is_known_until_it_has_ended, 0, n_worlds);
        tcase_add_loop_test(tests, a_process_that_comes_back_is_charged_once, 0, n_worlds);
        tcase_add_loop_test(tests, who_has_ended_is_not_taken_in, 0, WORLD_OF_OTHER_NAMESPACE);
        tcase_add_test(tests, a_kernel_that_knows_no_process_is_named);
        tcase_add_test(tests, a_program_is_told_why);
        if (n_worlds == N_WORLDS) {
                tcase_add_test(tests, another_namespace_needs_a_kernel_that_is_named);
                tcase_add_test(tests, nobody_is_looked_up_where_pids_are_others);
        } else {
                (void)puts("# left out: tests of two pid namespaces: they need CAP_SYS_ADMIN");
        }
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
