/* SPDX-License-Identifier: Apache-2.0 */
/* A user whose sockets take the kernel long is served by a thread of its own. It notices nothing else: all that holds on the
 * loop holds there. */
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/fdset.h"
#include "tests/live/support/slow_socket.h"
#include "tests/live/support/told.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

/* Of a connection without its board: its socket and its process. Beside them in a lane: a socket on each side, and a copy of
 * its own. And of each lane, which stays. */
#define FDS_A_CONNECTION 2
#define FDS_A_LINK       3
#define FDS_A_LANE       2

/* Of one that is over and whose peer has not read all: its process, and a socket on the loop's side and the peer's. */
#define FDS_UNREAD 3

#define IN_FLIGHT_MAX 32 /* fds on their way to one peer */

#define N_TRIES 1000
#define N_SENT  20
#define OTHER   12345

static int slow, early;

static bool has_files(void)
{
        struct rlimit files;

        return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= 8192;
}

static unsigned n_expected_fds(unsigned n_connections)
{
        return n_fds_before + FDS_A_LANE + n_connections * (FDS_A_CONNECTION + FDS_A_LINK);
}

static void become_slow(void)
{
        daemon_admit_all(&gpumemd);
        slow = connect_ready();
        must_serve(slow);
        ck_assert_uint_eq(daemon_count_lanes(&gpumemd), 0);
        make_slow(slow);
        for (unsigned i = 0; i < N_TRIES && !daemon_count_lanes(&gpumemd); i++)
                must_serve(slow);
        ck_assert_uint_eq(daemon_count_lanes(&gpumemd), 1);
}

static void start(void)
{
        frames_start();
        become_slow();
}

/* Lanes may have one connection. */
static void start_with_few_files(void)
{
        const struct rlimit few = {256, 256};

        frames_start();
        daemon_kill(&gpumemd);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        daemon_restart(&gpumemd, NULL, NULL);
        n_fds_before = daemon_quiet_fds(&gpumemd);
        early = connect_ready();
        become_slow();
}

/* What waits for the socket keeps it open. */
static void stop(void)
{
        (void)shutdown(slow, SHUT_RDWR);
        hang_up();
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(0));
        n_fds_before += FDS_A_LANE;
        frames_stop();
}

/* To ask for them needs a place in the lane, too. */
static void stop_without_figures(void)
{
        (void)shutdown(slow, SHUT_RDWR);
        hang_up();
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(0));
        daemon_stop(&gpumemd);
}

static const struct test_case few_files = {.name = "slow sockets, few files",
                                           .limit_s = 60,
                                           .start = start_with_few_files,
                                           .stop = stop_without_figures,
                                           .can_run = is_root,
                                           .needs = "root"};

static void must_be_told(enum listed_event what)
{
        struct event_row row = told_await(what, (uint32_t)getpid(), getuid());

        ck_assert_ptr_nonnull(strstr(row.text, "its user's sockets take the kernel long"));
}

/* Of that user alone. The events say why. */
TEST(what_no_lane_can_take_ends, .in = &few_files)
{
        struct frame frame = FRAME_NULL;
        int late = connect_raw();

        expect_end(late);
        closep(&late);
        must_be_told(LISTED_EVENT_TURNED_AWAY);
        send_frame(early, &frame, MESSAGE_STATS, 1);
        expect_end(early);
        closep(&early);
        must_be_told(LISTED_EVENT_DROPPED);
        must_serve(slow);
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(1));
}

TEST(leases_come_with_their_fds)
{
        struct frame wanted = lease_frame(0, 2 * MIB, 0), leased;
        struct fdset fds = FDSET_NULL;

        for (unsigned i = 0; i < N_SENT; i++) {
                send_frame(slow, &wanted, MESSAGE_LEASE, i);
                ck_assert_int_eq(receive(slow, &leased, &fds), 0);
                ck_assert_uint_eq(leased.kind, MESSAGE_LEASED);
                ck_assert_uint_eq(leased.serial, i);
                ck_assert_uint_eq(fds.n, 1);
                ck_assert_int_eq(fcntl(fds.fds[0], F_GETFD), FD_CLOEXEC);
                fdset_deinit(&fds);
                give_back(slow, leased.leased.lease, PROTO_RETURN_UNMAPPED, i);
        }
        must_serve(slow);
        daemon_free_all();
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(1));
}

/* Neither of those that were there, nor of those that come. */
TEST(no_other_socket_of_the_user_is_served_by_the_loop)
{
        int late;

        early = connect_ready();
        must_serve(early);
        late = connect_ready();
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(3));
        closep(&late);
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(2));
        closep(&early);
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(1));
}

/* Until it is killed. */
static pid_t ask_as_other(void)
{
        pid_t pid = fork();
        int fd;

        if (pid)
                return pid;
        if (setresuid(OTHER, OTHER, OTHER))
                _exit(1);
        fd = connect_ready();
        for (;;) {
                must_serve(fd);
                sleep_ms(10);
        }
}

TEST(another_user_is_served_by_the_loop, .can_run = is_root, .needs = "root")
{
        pid_t other = ask_as_other();

        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(1) + FDS_A_CONNECTION);
        ck_assert_uint_eq(daemon_count_lanes(&gpumemd), 1);
        child_kill(other);
}

/* It says so, after the frames before it. */
TEST(what_is_malformed_ends_the_connection)
{
        struct frame frame = FRAME_NULL;
        char bytes[2 * sizeof(struct frame)] = {0};

        send_frame(slow, &frame, MESSAGE_STATS, 78);
        send_bytes(slow, bytes, sizeof(bytes));
        ck_assert_uint_eq(expect(slow, MESSAGE_STATS_REPLY).serial, 78);
        frame = expect(slow, MESSAGE_ERROR);
        ck_assert_ptr_nonnull(strstr(frame.error.text, "more bytes than any message has"));
        expect_end(slow);
}

TEST(an_empty_datagram_ends_it_too)
{
        send_bytes(slow, "", 0);
        expect_dropped(slow, 0, GPUMEM_E_BAD_FRAME);
}

TEST(what_was_sent_before_the_end_counts)
{
        uint64_t lease = take_lease(slow, 2 * MIB);
        struct frame none = FRAME_NULL;

        for (unsigned i = 0; i < N_SENT; i++)
                send_frame(slow, &none, MESSAGE_STATS, i);
        give_back(slow, lease, PROTO_RETURN_UNMAPPED, N_SENT);
        ck_assert_int_eq(shutdown(slow, SHUT_WR), 0);
        for (unsigned i = 0; i < N_SENT; i++)
                ck_assert_uint_eq(expect(slow, MESSAGE_STATS_REPLY).serial, i);
        expect_end(slow);
        daemon_await(FIGURE_charged, 0);
}

static void await_end(int fd)
{
        struct pollfd events = {.fd = fd, .events = POLLRDHUP};

        ck_assert_int_eq(poll(&events, 1, AWAIT_MS), 1);
}

/* Until the daemon has given it up it is sent no more fds than on the loop. They count until it has read them. */
TEST(one_that_does_not_read_is_sent_away)
{
        struct frame frame = FRAME_NULL;
        struct fdset fds = FDSET_NULL;
        unsigned n = 0;

        proto_seal(&frame, MESSAGE_STATS, 1, 0);
        while (frame_socket_send_now(slow, &frame) == 0)
                sleep_ms(1);
        await_end(slow);
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(0) + FDS_UNREAD);
        for (; receive(slow, &frame, &fds) == 0; n += frame.kind == MESSAGE_STATS_REPLY)
                fdset_deinit(&fds);
        ck_assert_uint_le(n, IN_FLIGHT_MAX + 1); /* one that the lane had in its hand */
        AWAIT(daemon_count_fds(&gpumemd) == n_expected_fds(0));
}

TEST(a_lane_has_as_many_as_come, .can_run = has_files, .needs = "8192 files")
{
        int fds[N_SENT];

        for (unsigned i = 0; i < N_SENT; i++)
                fds[i] = connect_ready();
        for (unsigned i = 0; i < N_SENT; i++)
                must_serve(fds[i]);
        ck_assert_uint_eq(daemon_count_lanes(&gpumemd), 1);
        for (unsigned i = 0; i < N_SENT; i++)
                closep(&fds[i]);
}

TESTS_MAIN("slow_sockets", .limit_s = 60, .start = start, .stop = stop)
