/* SPDX-License-Identifier: Apache-2.0 */
/* A file that takes long to close delays no other work. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdset.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/fd_closer.h"
#include "tests/lingering.h"
#include "tests/suite.h"

#define N 200

static struct fd_closer *closer;

static void start(void)
{
        ck_assert_int_eq(fd_closer_new(&closer), 0);
}

static void stop(void)
{
        fd_closer_free(closer);
}

/* A socket that contains the last fd of a lingering socket. */
static int new_socket(int peers[static 2])
{
        int ends[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        peers[0] = lingering_send(ends[0], "", 1);
        peers[1] = ends[0];
        return ends[1];
}

/* At its end the closer finishes within a second, or abandons its thread. */
TEST(what_lingers_is_closed_at_once)
{
        int peers[N][2];

        for (unsigned i = 0; i < N; i++)
                fd_closer_take_socket(closer, new_socket(peers[i]));
        closer = fd_closer_free(closer);
        ck_assert(!abandoned_threads_any());
        for (unsigned i = 0; i < N; i++) {
                closep(&peers[i][0]);
                closep(&peers[i][1]);
        }
}

/* They are handed over in less time than the thread takes for those that linger. */
TEST(what_waits_is_counted)
{
        int peers[N][2], sockets[N];
        bool was_behind = false;

        for (unsigned i = 0; i < N; i++)
                sockets[i] = new_socket(peers[i]);
        ck_assert(fd_closer_keeps_up(closer));
        for (unsigned i = 0; i < N; i++) {
                fd_closer_take_socket(closer, sockets[i]);
                was_behind |= !fd_closer_keeps_up(closer);
        }
        ck_assert(was_behind);
        while (!fd_closer_keeps_up(closer))
                (void)usleep(1000);
        closer = fd_closer_free(closer);
        for (unsigned i = 0; i < N; i++) {
                closep(&peers[i][0]);
                closep(&peers[i][1]);
        }
}

TEST(nothing_is_left_open)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        fd_closer_take_socket(closer, fd);
        closer = fd_closer_free(closer);
        ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

/* Only sockets are counted. */
TEST(files_are_closed_too)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        for (unsigned i = 0; i < N; i++)
                fd_closer_take_file(closer, fcntl(fd, F_DUPFD_CLOEXEC, 0));
        ck_assert(fd_closer_keeps_up(closer));
        fd_closer_take_file(closer, fd);
        closer = fd_closer_free(closer);
        ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

TEST(without_a_closer_it_is_closed_now)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        fd_closer_take_socket(NULL, fd);
        ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

TESTS_MAIN("fd_closer", .start = start, .stop = stop)
