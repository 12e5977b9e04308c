/* SPDX-License-Identifier: Apache-2.0 */
/* A thread accepts connections, a bounded number of them ahead of those that take them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/server/transport/acceptor.h"
#include "daemon/server/transport/lanes.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/suite.h"

/* The kernel's queue takes one more than its length. */
#define BACKLOG  4
#define N_QUEUED (BACKLOG + 1)
#define N        (ACCEPTOR_WAITING_MAX + N_QUEUED)

static struct acceptor *acceptor;
static struct sockaddr_un address;
static int listen_fd, peers[N];
static sem_t wakes;
static struct lanes lanes;

static void note_wake(void *argument)
{
        (void)argument;
        (void)sem_post(&wakes);
}

static void start(void)
{
        listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(listen_fd, 0);
        address.sun_family = AF_UNIX;
        (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "gpumem-acceptor-%d",
                       (int)getpid());
        ck_assert_int_eq(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(listen(listen_fd, BACKLOG), 0);
        ck_assert_int_eq(sem_init(&wakes, 0, 0), 0);
        lanes = (struct lanes){.n_links_max = 1};
        ck_assert_int_eq(acceptor_new(listen_fd, NULL, &lanes, note_wake, NULL, &acceptor), 0);
        for (unsigned i = 0; i < N; i++)
                peers[i] = -1;
}

static void stop(void)
{
        acceptor = acceptor_free(acceptor);
        closep(&listen_fd);
        for (unsigned i = 0; i < N; i++)
                closep(&peers[i]);
        (void)sem_destroy(&wakes);
}

static int new_socket(int flags)
{
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

        ck_assert_int_ge(fd, 0);
        return fd;
}

static int connect_to(int fd)
{
        return connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? err_errno() : 0;
}

/* Waits for its place. */
static int must_connect(void)
{
        int fd = new_socket(0);

        ck_assert_int_eq(connect_to(fd), 0);
        return fd;
}

static struct accepted must_take(void)
{
        struct accepted accepted;

        while (!acceptor_take(acceptor, &accepted))
                ck_assert_int_eq(sem_wait(&wakes), 0);
        return accepted;
}

static void expect_pair(int peer, int fd)
{
        char byte = 0;

        ck_assert_int_eq((int)send(peer, "x", 1, MSG_NOSIGNAL), 1);
        ck_assert_int_eq((int)recv(fd, &byte, 1, MSG_DONTWAIT), 1);
        ck_assert_int_eq(byte, 'x');
}

/* But for one connection, for which it may have waited when they became full. */
TEST(while_lanes_are_full_nothing_is_accepted)
{
        struct accepted accepted;
        unsigned n = 0;

        atomic_store(&lanes.n_links, 1);
        for (unsigned i = 0; i < N_QUEUED; i++)
                peers[i] = must_connect();
        (void)usleep(50000);
        for (; acceptor_take(acceptor, &accepted); n++)
                accepted_close(&accepted, NULL);
        ck_assert_uint_le(n, 1);
        atomic_store(&lanes.n_links, 0);
        for (; n < N_QUEUED; n++) {
                accepted = must_take();
                expect_pair(peers[n], accepted.fd);
                accepted_close(&accepted, NULL);
        }
}

TEST(a_connection_is_handed_over_with_its_peer)
{
        struct accepted accepted;

        peers[0] = must_connect();
        accepted = must_take();
        ck_assert_uint_eq(accepted.uid, geteuid());
        ck_assert_int_eq(accepted.fault, 0);
        ck_assert_int_eq(accepted.peer.pid, getpid());
        ck_assert_uint_eq(accepted.peer.uid, geteuid());
        ck_assert(peer_lives(&accepted.peer));
        ck_assert_int_eq(fcntl(accepted.peer.pidfd, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(fcntl(accepted.fd, F_GETFD), FD_CLOEXEC);
        ck_assert(fcntl(accepted.fd, F_GETFL) & O_NONBLOCK);
        expect_pair(peers[0], accepted.fd);
        ck_assert(!acceptor_take(acceptor, &accepted));
        accepted_close(&accepted, NULL);
}

/* Others wait in connect(), until one is taken. */
TEST(a_bounded_number_is_ahead)
{
        int late = new_socket(SOCK_NONBLOCK);

        for (unsigned i = 0; i < N; i++)
                peers[i] = must_connect();
        ck_assert_int_eq(connect_to(late), -EAGAIN);
        closep(&late);
        for (unsigned i = 0; i < N; i++) {
                struct accepted accepted = must_take();

                expect_pair(peers[i], accepted.fd);
                accepted_close(&accepted, NULL);
        }
        late = must_connect();
        closep(&late);
}

/* Those in the kernel's queue end before their turn. */
TEST(what_has_gone_is_not_handed_over)
{
        struct accepted accepted;

        for (unsigned i = 0; i < N; i++)
                peers[i] = must_connect();
        for (unsigned i = ACCEPTOR_WAITING_MAX; i < N - 1; i++)
                closep(&peers[i]);
        for (unsigned i = 0; i < ACCEPTOR_WAITING_MAX; i++) {
                accepted = must_take();
                accepted_close(&accepted, NULL);
        }
        accepted = must_take();
        expect_pair(peers[N - 1], accepted.fd);
        accepted_close(&accepted, NULL);
        ck_assert(!acceptor_take(acceptor, &accepted));
}

static unsigned count_fds(void)
{
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

TEST(what_was_not_taken_is_closed_at_the_end)
{
        unsigned n_before = count_fds();
        char byte;

        for (unsigned i = 0; i < ACCEPTOR_WAITING_MAX; i++)
                peers[i] = must_connect();
        acceptor = acceptor_free(acceptor);
        /* The two fds of the acceptor's own are gone, and peers are there. */
        ck_assert_uint_eq(count_fds(), n_before - 2 + ACCEPTOR_WAITING_MAX);
        closep(&listen_fd);
        for (unsigned i = 0; i < ACCEPTOR_WAITING_MAX; i++)
                ck_assert_int_le((int)recv(peers[i], &byte, 1, 0), 0);
}

/* The socket has the last fd that the process may have. */
static struct rlimit leave_no_fd(int fd)
{
        struct rlimit before, none;

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = (rlim_t)fd + 1;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        return before;
}

TEST(where_no_fd_is_left_the_peer_is_told)
{
        struct frame frame = FRAME_NULL;
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct accepted accepted;
        struct rlimit before;

        peers[0] = new_socket(0);
        peers[1] = new_socket(0);
        before = leave_no_fd(peers[1]);
        ck_assert_int_eq(connect_to(peers[0]), 0);
        ck_assert_int_eq(frame_socket_receive(peers[0], FROM_DAEMON, &frame, &fds, &reason), 0);
        ck_assert_uint_eq(frame.error.code, GPUMEM_E_TOO_MANY);
        while (!acceptor_take_shortage(acceptor))
                ck_assert_int_eq(sem_wait(&wakes), 0);
        ck_assert(!acceptor_take_shortage(acceptor));
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert_int_eq(connect_to(peers[1]), 0);
        accepted = must_take();
        expect_pair(peers[1], accepted.fd);
        accepted_close(&accepted, NULL);
}

static void expect_shortage(int n_fds_left)
{
        struct accepted accepted;
        struct rlimit before;

        peers[0] = new_socket(0);
        before = leave_no_fd(peers[0] + n_fds_left);
        ck_assert_int_eq(connect_to(peers[0]), 0);
        accepted = must_take();
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert_int_eq(accepted.fault, -EMFILE);
        ck_assert_uint_eq(accepted.uid, geteuid());
        expect_pair(peers[0], accepted.fd);
        accepted_close(&accepted, NULL);
}

/* One fd is left, for the connection, and none for the process at its other end. */
TEST(a_peer_that_cannot_be_identified_is_handed_over_with_the_reason)
{
        expect_shortage(1);
}

/* One more is left, and none to read of which container that process is: it would be taken for another one's. */
TEST(so_is_one_whose_container_cannot_be_read_for_lack_of_fds)
{
        expect_shortage(2);
}

/* It was lost with the limit, which is as it was again. */
TEST(a_spare_fd_that_was_lost_is_had_again)
{
        struct frame frame = FRAME_NULL;
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct accepted accepted;
        struct rlimit before;

        peers[0] = new_socket(0);
        before = leave_no_fd(1); /* poll() needs a limit of two */
        ck_assert_int_eq(connect_to(peers[0]), 0);
        while (!acceptor_take_shortage(acceptor))
                ck_assert_int_eq(sem_wait(&wakes), 0);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        accepted = must_take();
        peers[1] = new_socket(0);
        (void)leave_no_fd(peers[1]);
        ck_assert_int_eq(connect_to(peers[1]), 0);
        ck_assert_int_eq(frame_socket_receive(peers[1], FROM_DAEMON, &frame, &fds, &reason), 0);
        ck_assert_uint_eq(frame.error.code, GPUMEM_E_TOO_MANY);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        accepted_close(&accepted, NULL);
}

/* In a process that ends at once; a child of it keeps the socket. */
static int connect_and_die(void)
{
        int ends[2], fd = new_socket(0);
        pid_t pid;

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        pid = fork();
        if (!pid) {
                if (connect_to(fd))
                        _exit(1);
                if (fork())
                        _exit(0);
                (void)close(ends[1]);
                (void)read(ends[0], &pid, 1); /* until the test ends it */
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        closep(&ends[0]);
        closep(&fd);
        return ends[1];
}

/* It is not known which user it would be charged to: the uid may be one of many in a container. */
TEST(a_peer_that_has_ended_is_sent_away_by_the_thread)
{
        struct accepted accepted;
        int dead;

        for (unsigned i = 0; i < ACCEPTOR_WAITING_MAX; i++)
                peers[i] = must_connect();
        dead = connect_and_die();
        peers[N - 1] = must_connect();
        for (unsigned i = 0; i < ACCEPTOR_WAITING_MAX; i++) {
                accepted = must_take();
                accepted_close(&accepted, NULL);
        }
        accepted = must_take();
        ck_assert_int_eq(accepted.fault, 0);
        expect_pair(peers[N - 1], accepted.fd);
        accepted_close(&accepted, NULL);
        closep(&dead);
}

TESTS_MAIN("acceptor", .start = start, .stop = stop)
