/* SPDX-License-Identifier: Apache-2.0 */
/* How much one process and one user may have of shared resources: connections and fds. A process that takes
 * all that it can get leaves something for the next one. */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "proto/frame_socket.h"
#include "tests/live/support/world.h"

/* A uid that is neither root nor the daemon's user. */
#define STRANGER 65534

#define A_PROCESS_MAX 256
#define IN_FLIGHT_MAX 32
#define N_QUESTIONS   200

/* A connection that leaves a charge. */
static int connect_and_leave(void)
{
        struct link_hello hello = {.program = "leaver", .incarnation = 1, .n_held_bytes = 1};
        struct fdset fds = FDSET_NULL;
        struct frame held = FRAME_NULL;
        struct message_welcome welcome;
        struct link *link;
        int r;

        r = link_open(NULL, &hello, &link, &welcome, &fds);
        if (r)
                return r;
        held.held.n_bytes = 1;
        (void)link_send(link, &held, MESSAGE_HELD);
        link_free(link);
        fdset_deinit(&fds);
        return 0;
}

static int lease_block(struct link *link, uint64_t n_bytes, uint64_t *ret_lease)
{
        const struct message_lease wanted = {.n_bytes = n_bytes};
        struct message_leased leased;
        int r = lease_over(link, &wanted, &leased);

        if (!r)
                *ret_lease = leased.lease;
        return r;
}

/* In another process of this user: whether it can connect, and lease a block if asked to. */
enum deed { CONNECT, LEASE };

static bool another_can(enum deed deed, uid_t uid)
{
        struct message_welcome welcome;
        struct fdset fds = FDSET_NULL;
        struct link *link;
        uint64_t lease;
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(setuid(uid) ||
                      link_open(NULL, &(struct link_hello){.program = "another"}, &link, &welcome,
                                &fds) ||
                      (deed == LEASE && lease_block(link, 2 * MIB, &lease)));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        return status == 0;
}

TEST(a_process_leaves_so_many_charges_and_no_more)
{
        unsigned n = 0;

        while (n <= A_PROCESS_MAX && connect_and_leave() == 0)
                n++;
        ck_assert_uint_eq(n, A_PROCESS_MAX);
        ck_assert_uint_le(daemon_quiet_fds(&gpumemd), gpumemd.n_fds + A_PROCESS_MAX + 1);
        ck_assert(another_can(CONNECT, getuid()));
}

/* In the same way that a stranger may connect. */
static void restart_with_few_files(void)
{
        const struct rlimit few = {256, 256};

        daemon_kill(&gpumemd);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        daemon_restart(&gpumemd, NULL, NULL);
        daemon_admit_all(&gpumemd);
}

/* Half of the 256 fds are for 42 connections; root may have half of these, and so may each container that it runs. */
TEST(a_user_leaves_connections_for_others, NEEDS_ROOT)
{
        unsigned n = 0;

        restart_with_few_files();
        while (n < 42 && connect_and_leave() == 0)
                n++;
        ck_assert_uint_eq(n, 21);
        ck_assert(!another_can(CONNECT, getuid()));
        ck_assert(another_can(CONNECT, STRANGER));
}

/* The stranger's block counts until its process is known to have ended. */
static int lease_soon(struct link *link, uint64_t *ret_lease)
{
        int r = GPUMEM_E_TOO_MANY;

        for (unsigned i = 0; i < 1000 && r == GPUMEM_E_TOO_MANY; i++) {
                if (i)
                        sleep_ms(5);
                r = lease_block(link, 4 * MIB, ret_lease);
        }
        return r;
}

/* Three sixteenths of the 256 fds are for blocks; one tenant alone may have four fifths of these. */
TEST(blocks_leave_files_for_others, NEEDS_ROOT)
{
        char text[LINK_REFUSAL_MAX];
        uint64_t lease = 0;
        struct link *link;
        unsigned n = 0;

        restart_with_few_files();
        link = open_link("test", NULL);
        while (n < 48 && !lease_block(link, 2 * MIB, &lease))
                n++;
        ck_assert_uint_eq(n, 39);
        ck_assert_int_eq(lease_block(link, 4 * MIB, &lease), GPUMEM_E_TOO_MANY);
        link_refusal(link, text);
        ck_assert_msg(strstr(text, "39 exist in all pools; gpumemd has file descriptors for 48"),
                      "%s", text);
        ck_assert(another_can(LEASE, STRANGER));
        /* Cached blocks are released for it. */
        return_over(link, lease, PROTO_RETURN_UNMAPPED);
        ck_assert_int_eq(lease_soon(link, &lease), 0);
        link_free(link);
}

/* Receives everything; returns the number of fds. */
static unsigned receive_all(int socket, unsigned *n_answers)
{
        struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
        unsigned n_fds = 0;

        while (poll(&poll_fd, 1, 0) > 0) {
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason;
                struct frame frame;

                ck_assert_int_eq(frame_socket_receive(socket, FROM_DAEMON, &frame, &fds, &reason),
                                 0);
                ck_assert_uint_eq(frame.kind, MESSAGE_POOLS_REPLY);
                n_fds += fds.n;
                fdset_deinit(&fds);
                ++*n_answers;
        }
        return n_fds;
}

static void ask_in_vain(int socket, unsigned n)
{
        struct frame frame = FRAME_NULL;

        for (unsigned i = 0; i < n; i++) {
                proto_seal(&frame, MESSAGE_POOLS, i + 2, 0);
                ck_assert_int_eq(frame_socket_send(socket, &frame, NULL), 0);
        }
        (void)daemon_quiet_fds(&gpumemd);
}

TEST(who_does_not_read_has_few_fds_in_flight)
{
        struct link *link = open_link("test", NULL);
        unsigned n_answers = 0;

        ask_in_vain(link_socket(link), N_QUESTIONS);
        ck_assert_uint_le(daemon_count_fds(&gpumemd), gpumemd.n_fds + 3);
        daemon_suspend(&gpumemd);
        ck_assert_uint_le(receive_all(link_socket(link), &n_answers), IN_FLIGHT_MAX);
        ck_assert_uint_ge(n_answers, 1);
        daemon_resume(&gpumemd);
        while (n_answers < N_QUESTIONS) {
                (void)receive_all(link_socket(link), &n_answers);
                sleep_ms(1);
        }
        link_free(link);
}

/* Is there an unread frame behind the first, which has so many bytes? */
static bool has_second(int socket, int n_first_bytes)
{
        const int not_at_all = -1;
        char byte;
        bool is_there;

        ck_assert_int_eq(
                setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &n_first_bytes, sizeof(n_first_bytes)),
                0);
        is_there = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
        ck_assert_int_eq(
                setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &not_at_all, sizeof(not_at_all)), 0);
        return is_there;
}

/* It always leaves one. */
TEST(who_reads_some_is_sent_more)
{
        struct link *link = open_link("test", NULL);
        int socket = link_socket(link);
        unsigned n_answers = 0;

        ask_in_vain(socket, N_QUESTIONS);
        while (n_answers < N_QUESTIONS - 1) {
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason;
                struct frame frame;

                ck_assert_int_eq(frame_socket_receive(socket, FROM_DAEMON, &frame, &fds, &reason),
                                 0);
                fdset_deinit(&fds);
                n_answers++;
                if (n_answers < N_QUESTIONS - 1)
                        AWAIT(has_second(socket, (int)frame.n_bytes));
        }
        link_free(link);
}

/* So the daemon knows how many frames are unread at most. */
TEST(an_unread_frame_counts_768_bytes)
{
        enum { N_FRAMES = 20 };
        int pair[2], n_bytes;
        char byte = 0;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        for (unsigned i = 0; i < N_FRAMES; i++)
                ck_assert_int_eq(send(pair[0], &byte, 1, 0), 1);
        for (int n = N_FRAMES; n; n--) {
                ck_assert_int_eq(ioctl(pair[0], SIOCOUTQ, &n_bytes), 0);
                ck_assert_int_ge(n_bytes, n * 768);
                ck_assert_int_eq(recv(pair[1], &byte, 1, 0), 1);
        }
        ck_assert_int_eq(ioctl(pair[0], SIOCOUTQ, &n_bytes), 0);
        ck_assert_int_eq(n_bytes, 0);
        closep(&pair[0]);
        closep(&pair[1]);
}

/* The kernel counts them until they are received, also after the connection's end. */
TEST(fds_in_flight_are_accounted_for_after_the_end)
{
        struct link *link = open_link("test", NULL);
        struct frame bye = FRAME_NULL;

        ask_in_vain(link_socket(link), IN_FLIGHT_MAX);
        proto_seal(&bye, MESSAGE_BYE, 1, 0);
        ck_assert_int_eq(frame_socket_send(link_socket(link), &bye, NULL), 0);
        ck_assert_uint_ge(daemon_quiet_fds(&gpumemd), gpumemd.n_fds + 2);
        link_free(link);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), gpumemd.n_fds);
}

TESTS_MAIN("bounds", .limit_s = 60, .start = gpumemd_start, .stop = gpumemd_stop)
