/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a client's end, which has two signs: of its connection, and of its process. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/told.h"
#include "tests/suite.h"

#define N_BYTES (6 * MIB)

static uint32_t own_uid(void)
{
        return (uint32_t)getuid();
}

/* A process with a lease; a child of it has the connection, too, and ends when `ends` is closed. */
static pid_t hold_twice(const int ends[2], pid_t *ret_child)
{
        int told[2];
        pid_t pid;

        ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                int fd = connect_ready();
                pid_t child;
                char byte;

                (void)take_lease(fd, N_BYTES);
                (void)close(ends[1]);
                child = fork();
                if (child == 0)
                        _exit(read(ends[0], &byte, 1) != 0);
                if (write(told[1], &child, sizeof(child)) != sizeof(child))
                        _exit(1);
                for (;;)
                        (void)pause();
        }
        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(read(told[0], ret_child, sizeof(*ret_child)), sizeof(*ret_child));
        closep(&told[0]);
        closep(&told[1]);
        return pid;
}

/* Also of one that is not ours to be waited for. */
static void await_end(pid_t pid)
{
        struct pollfd poll_fd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

        if (poll_fd.fd < 0) {
                ck_assert_int_eq(errno, ESRCH);
                return;
        }
        ck_assert_int_eq(poll(&poll_fd, 1, 20000), 1);
        closep(&poll_fd.fd);
}

static void kill_and_wait(pid_t pid)
{
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* The last of its events. */
static void expect_only_the_end(pid_t pid)
{
        struct event_row row = told_await(LISTED_EVENT_ENDED, (uint32_t)pid, own_uid());
        struct link *link = open_link("test", NULL);
        struct told told = told_fetch(link, 0, TOLD_BIT(LINGERING));

        ck_assert_uint_eq(row.bytes, N_BYTES);
        ck_assert_uint_eq(told.n_rows, 0);
        told_free(&told);
        link_free(link);
}

/* The daemon is stopped meanwhile, so that it finds both signs at once, in the order in which they came. */
TEST(a_connection_that_ends_with_its_process_does_not_linger)
{
        pid_t pid, child;
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        pid = hold_twice(ends, &child);
        closep(&ends[1]);
        await_end(child);
        daemon_suspend(&gpumemd);
        kill_and_wait(pid);
        daemon_resume(&gpumemd);
        expect_only_the_end(pid);
        closep(&ends[0]);
}

TEST(a_process_that_ends_with_its_connection_does_not_linger)
{
        pid_t pid, child;
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        pid = hold_twice(ends, &child);
        daemon_suspend(&gpumemd);
        kill_and_wait(pid);
        closep(&ends[1]);
        await_end(child);
        daemon_resume(&gpumemd);
        expect_only_the_end(pid);
        closep(&ends[0]);
}

TEST(a_child_with_the_connection_lingers)
{
        struct event_row row;
        pid_t pid, child;
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        pid = hold_twice(ends, &child);
        kill_and_wait(pid);
        row = told_await(LISTED_EVENT_LINGERING, (uint32_t)pid, own_uid());
        ck_assert_uint_eq(row.bytes, N_BYTES);
        ck_assert_str_eq(row.text, "the process is over, a child of it holds the connection");
        closep(&ends[1]);
        (void)told_await(LISTED_EVENT_ENDED, (uint32_t)pid, own_uid());
        closep(&ends[0]);
}

/* A child that leaves with a lease, and lives on until it is told to end. */
static pid_t leave_and_live(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                int fd = connect_ready();

                (void)take_lease(fd, N_BYTES);
                (void)close(fd);
                for (;;)
                        (void)pause();
        }
        ck_assert_int_gt(pid, 0);
        return pid;
}

TEST(what_lingers_is_told_and_its_end)
{
        pid_t pid = leave_and_live();
        struct event_row row = told_await(LISTED_EVENT_LINGERING, (uint32_t)pid, own_uid());

        ck_assert_uint_eq(row.bytes, N_BYTES);
        ck_assert_str_ne(row.text, "");
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        row = told_await(LISTED_EVENT_ENDED, (uint32_t)pid, own_uid());
        ck_assert_uint_eq(row.bytes, N_BYTES);
}

TESTS_MAIN("ends", .limit_s = 60, .start = frames_start, .stop = frames_stop)
