/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdset.h"
#include "tests/suite.h"

static int open_fd(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        ck_assert_int_ge(fd, 0);
        return fd;
}

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

TEST(fdset_closes_what_it_cannot_hold)
{
        struct fdset set = FDSET_NULL;
        int fds[FDSET_MAX + 1];

        for (unsigned i = 0; i < FDSET_MAX; i++) {
                fds[i] = open_fd();
                ck_assert_int_eq(fdset_add(&set, fds[i]), 0);
        }
        fds[FDSET_MAX] = open_fd();
        ck_assert_int_eq(fdset_add(&set, fds[FDSET_MAX]), -E2BIG);
        ck_assert(!is_open(fds[FDSET_MAX]));
        for (unsigned i = 0; i < FDSET_MAX; i++)
                ck_assert(is_open(fds[i]));
        fdset_deinit(&set);
        for (unsigned i = 0; i < FDSET_MAX; i++)
                ck_assert(!is_open(fds[i]));
        ck_assert_uint_eq(set.n, 0);
}

TEST(fdset_gives_each_fd_once)
{
        struct fdset set = FDSET_NULL;
        int kept = open_fd(), stolen = open_fd();

        ck_assert_int_eq(fdset_add(&set, kept), 0);
        ck_assert_int_eq(fdset_add(&set, stolen), 0);
        ck_assert_int_eq(fdset_steal(&set, 1), stolen);
        ck_assert_int_eq(fdset_steal(&set, 1), -1);
        ck_assert_int_eq(fdset_steal(&set, 2), -1);
        fdset_deinit(&set);
        ck_assert(is_open(stolen));
        ck_assert(!is_open(kept));
        errno = ENOENT;
        closep(&stolen);
        closep(&stolen);
        ck_assert_int_eq(errno, ENOENT);
        ck_assert_int_eq(stolen, -1);
}

/* Exit status 0 if fds 0 and 2 are unusable, and the next file gets another number. */
static int fill_two_places(void)
{
        int next;

        (void)close(STDIN_FILENO);
        (void)close(STDERR_FILENO);
        if (fds_fill_standard())
                return 1;
        if (write(STDERR_FILENO, "x", 1) != -1 || errno != EBADF)
                return 2;
        next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (next <= STDERR_FILENO)
                return 3;
        (void)close(next);
        return fcntl(STDIN_FILENO, F_GETFD) == FD_CLOEXEC ? 0 : 4;
}

TEST(standard_places_do_not_stay_empty)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(fill_two_places());
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(fds_fill_standard(), 0);
}

TESTS_MAIN("fdset")
