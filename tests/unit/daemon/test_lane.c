/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane does at the end of a side, and at its own. What it carries before that is in live/limits/test_slow_sockets.c. */
#include "daemon/server/transport/lane.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/suite.h"

/* More than a client's socket takes while its lane leaves it little room, and less than one takes at the end. */
#define N_FRAMES 100

static struct {
        struct lane *lane;
        atomic_uint n_links;
        int client, loop;
} world;

static atomic_uint n_looks;

int __real_epoll_wait(int fd, struct epoll_event *events, int n_max, int timeout_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n_max, int timeout_ms);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n_max, int timeout_ms)
{
        atomic_fetch_add(&n_looks, 1);
        return __real_epoll_wait(fd, events, n_max, timeout_ms);
}

static struct lane *end_lane(void)
{
        return lane_free(world.lane, clock_now_ns() + 10 * NS_PER_S);
}

static void start(void)
{
        int pair[2];

        world.n_links = 0;
        ck_assert_int_eq(lane_new(NULL, &world.n_links, &world.lane), 0);
        ck_assert_int_eq(
                socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        world.client = pair[0];
        ck_assert_int_eq(lane_take(world.lane, pair[1], &world.loop), 0);
        closep(&pair[1]);
        ck_assert_uint_eq(world.n_links, 1);
}

static void stop(void)
{
        closep(&world.client);
        closep(&world.loop);
        world.lane = end_lane();
        ck_assert_uint_eq(world.n_links, 0);
}

static struct frame error_frame(uint32_t number, const int *fd)
{
        struct frame frame = FRAME_NULL;

        frame.error.code = GPUMEM_E_LIMIT;
        proto_seal(&frame, MESSAGE_ERROR, number, fd ? 1 : 0);
        return frame;
}

/* As many as the socket takes: the lane is slower than this. */
static void send_all(void)
{
        for (uint32_t i = 0; i < N_FRAMES; i++) {
                struct frame frame = error_frame(i, NULL);
                int r;

                do {
                        r = frame_socket_send(world.loop, &frame, NULL);
                } while (r == -EAGAIN);
                ck_assert_int_eq(r, 0);
        }
}

static int receive(uint32_t *ret_number)
{
        struct proto_reason reason;
        struct fdset fds = FDSET_NULL;
        struct frame frame;
        int r;

        do {
                r = frame_socket_receive(world.client, FROM_DAEMON, &frame, &fds, &reason);
        } while (r == -EAGAIN);
        if (!r)
                *ret_number = frame.serial;
        fdset_deinit(&fds);
        return r;
}

static void expect_all(void)
{
        for (uint32_t i = 0; i < N_FRAMES; i++) {
                uint32_t number = 0;

                ck_assert_int_eq(receive(&number), 0);
                ck_assert_uint_eq(number, i);
        }
        ck_assert_int_eq(receive(NULL), GPUMEM_E_DISCONNECTED);
}

static void await_no_links(void)
{
        while (world.n_links)
                (void)usleep(100);
}

TEST(a_client_that_does_not_read_finds_all_after_the_end)
{
        send_all();
        closep(&world.loop);
        await_no_links();
        expect_all();
}

TEST(a_lane_that_ends_delivers_what_it_has)
{
        send_all();
        world.lane = end_lane();
        ck_assert_uint_eq(world.n_links, 0);
        expect_all();
        start();
}

static unsigned send_in_vain(int fd)
{
        struct frame frame = error_frame(1, NULL);
        unsigned n = 0;

        while (frame_socket_send(fd, &frame, NULL) == 0)
                n++;
        return n;
}

/* The client's own takes few, and the lane one. */
TEST(while_a_client_does_not_read_the_loops_socket_fills)
{
        unsigned n_of_one;
        int pair[2];

        ck_assert_int_eq(
                socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        n_of_one = send_in_vain(pair[0]);
        closep(&pair[0]);
        closep(&pair[1]);
        (void)send_in_vain(world.loop);
        (void)usleep(20000);
        ck_assert_uint_lt(send_in_vain(world.loop), n_of_one / 2);
}

TEST(the_loop_is_told_of_a_clients_end_and_the_clients_socket_stays_until_the_loops_is_closed)
{
        char byte;

        closep(&world.client);
        while (recv(world.loop, &byte, 1, 0) < 0)
                ck_assert_int_eq(errno, EAGAIN);
        ck_assert_uint_eq(world.n_links, 1);
        closep(&world.loop);
        await_no_links();
}

TEST(what_takes_long_is_closed)
{
        int pair[2];
        char byte;

        ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
        ck_assert_int_eq(lane_close(world.lane, pair[1]), 0);
        ck_assert_int_eq(read(pair[0], &byte, 1), 0);
        while (lane_n_links(world.lane) != 1)
                (void)usleep(100);
        closep(&pair[0]);
}

/* Once the thread has slept for this long. */
static unsigned quiet_n_looks(void)
{
        unsigned n;

        do {
                n = n_looks;
                (void)usleep(20000);
        } while (n != n_looks && n < 10000);
        return n;
}

TEST(a_client_that_has_ended_is_not_looked_at_again_and_again)
{
        char byte;

        closep(&world.client);
        while (recv(world.loop, &byte, 1, 0) < 0)
                ck_assert_int_eq(errno, EAGAIN);
        ck_assert_uint_lt(quiet_n_looks(), 100);
}

TESTS_MAIN("lane", .start = start, .stop = stop)
