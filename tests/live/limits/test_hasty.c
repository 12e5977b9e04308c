/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait for the daemon: it stands still while a client asks, hangs up or dies, and sees all at once. They
 * are taken in their order, one of each connection at a time, and the end of the connection or the process comes after
 * them. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/connection/rows.h"
#include "proto/address.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

#define N_HASTY     90
#define N_NEWCOMERS 100
#define N_AT_ONCE   5 /* so many connect while the daemon stands still: the next would wait */
#define NO_KIND     0x7001

static struct link *admin;

static void start(void)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--device-bytes", "64MiB"),
                                "{\"limits\": {\"client\": {\"leases\": 1000}}}");
        admin = open_admin_link("admin");
}

static void stop(void)
{
        link_free(admin);
        daemon_stop(&gpumemd);
}

/* Of the first pool, over the admin socket. */
static uint64_t charged_bytes(void)
{
        struct frame request = FRAME_NULL, reply;
        struct fdset fds = FDSET_NULL;
        uint64_t n_bytes;
        void *rows;

        ck_assert_int_eq(
                link_call(admin, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds), 0);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.stats_reply.n_rows,
                                   reply.stats_reply.n_row_bytes, sizeof(struct stats_row), &rows),
                         0);
        n_bytes = ((const struct stats_row *)rows)->charged;
        free(rows);
        fdset_deinit(&fds);
        return n_bytes;
}

static void cancel_nothing(int fd)
{
        struct frame frame = FRAME_NULL;

        frame.cancel.request = 4711;
        for (unsigned i = 0; i < N_HASTY; i++)
                send_frame(fd, &frame, MESSAGE_CANCEL, 100 + i);
}

/* More replies than its socket takes, but fewer than the number at which the daemon stops reading. */
#define N_UNREAD 320

#define N_WITH_FDS 40

static void reset_peaks(int fd, unsigned n)
{
        struct frame frame = FRAME_NULL;

        frame.reset_peaks.scope = PROTO_SCOPE_TENANT;
        frame.reset_peaks.pool = PROTO_ALL_POOLS;
        for (unsigned i = 0; i < n; i++)
                send_frame(fd, &frame, MESSAGE_RESET_PEAKS, 1000 + i);
}

/* The loop reports when the socket takes more. */
TEST(answers_that_wait_come_in_their_order)
{
        struct frame reply;
        struct fdset fds = FDSET_NULL;
        int fd = connect_ready();

        reset_peaks(fd, N_UNREAD);
        for (unsigned i = 0; i < N_UNREAD; i++) {
                ck_assert_int_eq(receive(fd, &reply, &fds), 0);
                ck_assert_uint_eq(reply.serial, 1000 + i);
        }
        must_serve(fd);
}

/* Each has a fd, and a peer may have so many on the way: the last ones wait until it reads. */
TEST(who_says_that_it_asks_no_more_gets_the_answers_that_wait)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), other = connect_ready();

        for (unsigned i = 0; i < N_WITH_FDS; i++)
                send_frame(fd, &frame, MESSAGE_STATS, 1 + i);
        (void)daemon_quiet_fds(&gpumemd);
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
        (void)daemon_quiet_fds(&gpumemd);
        for (unsigned i = 0; i < N_WITH_FDS; i++)
                ck_assert_uint_eq(expect(fd, MESSAGE_STATS_REPLY).serial, 1 + i);
        must_serve(other);
}

TEST(frames_of_no_kind_are_answered_each)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        daemon_suspend(&gpumemd);
        for (unsigned i = 0; i < N_HASTY; i++) {
                proto_seal(&frame, MESSAGE_STATS, 100 + i, 0);
                frame.kind = NO_KIND;
                send_bytes(fd, &frame, frame.n_bytes);
        }
        daemon_resume(&gpumemd);
        for (unsigned i = 0; i < N_HASTY; i++)
                expect_error(fd, 100 + i, GPUMEM_E_UNKNOWN_KIND);
        must_serve(fd);
}

/* Connections that came before this one have been let in, too: the kernel keeps the order. */
static void come_after_them(void)
{
        int fd = connect_ready();

        closep(&fd);
}

/* The queue in front of the daemon is short: no user stands there behind many of another. */
TEST(few_connect_while_the_daemon_stands_still)
{
        struct sockaddr_un address;
        int fds[N_AT_ONCE],
                next = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        daemon_suspend(&gpumemd);
        for (unsigned i = 0; i < N_AT_ONCE; i++)
                fds[i] = connect_raw();
        ck_assert_int_eq(connect(next, (struct sockaddr *)&address, sizeof(address)), -1);
        ck_assert_int_eq(errno, EAGAIN);
        daemon_resume(&gpumemd);
        come_after_them();
        ck_assert_int_eq(connect(next, (struct sockaddr *)&address, sizeof(address)), 0);
        for (unsigned i = 0; i < N_AT_ONCE; i++)
                closep(&fds[i]);
        closep(&next);
}

/* They wait for their user's turn. */
TEST(all_that_arrive_at_once_are_welcome)
{
        struct frame hello = hello_frame();
        int fds[N_NEWCOMERS];

        for (unsigned i = 0; i < N_NEWCOMERS; i += N_AT_ONCE) {
                daemon_suspend(&gpumemd);
                for (unsigned k = i; k < i + N_AT_ONCE; k++) {
                        fds[k] = connect_raw();
                        send_frame(fds[k], &hello, MESSAGE_HELLO, 1);
                }
                daemon_resume(&gpumemd);
                come_after_them();
        }
        for (unsigned i = 0; i < N_NEWCOMERS; i++)
                (void)expect(fds[i], MESSAGE_WELCOME);
        for (unsigned i = 0; i < N_NEWCOMERS; i++)
                must_serve(fds[i]);
}

/* All before its turn came: the daemon has nothing left of them. */
TEST(who_arrives_and_leaves_leaves_nothing)
{
        struct frame hello = hello_frame();
        unsigned n_fds = daemon_quiet_fds(&gpumemd);

        for (unsigned i = 0; i < 20; i++) {
                daemon_suspend(&gpumemd);
                for (unsigned k = 0; k < N_AT_ONCE; k++) {
                        int fd = connect_raw();

                        if (k % 2)
                                send_frame(fd, &hello, MESSAGE_HELLO, 1);
                        closep(&fd);
                }
                daemon_resume(&gpumemd);
                come_after_them();
        }
        AWAIT(daemon_count_fds(&gpumemd) == n_fds);
}

/* Memory that it returned before is taken, too; the client lives, so nothing else would bring it back. */
TEST(what_hangs_up_while_its_frames_wait_has_gone)
{
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 2 * MIB);

        ck_assert_uint_eq(charged_bytes(), 2 * MIB);
        daemon_suspend(&gpumemd);
        cancel_nothing(fd);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 3);
        closep(&fd);
        daemon_resume(&gpumemd);
        AWAIT(charged_bytes() == 0);
}

/* More leases than the daemon ends in one step. */
TEST(what_dies_while_its_frames_wait_leaves_nothing)
{
        enum { N_LEASES = 100 };
        int ready[2];
        char byte = 0;
        pid_t child;

        stop();
        daemon_start_configured(&gpumemd, "devices=1,bytes=512MiB",
                                OPTIONS("--device-bytes", "512MiB"), "{}");
        admin = open_admin_link("admin");
        ck_assert_int_eq(pipe(ready), 0);
        child = fork();
        if (child == 0) {
                int fd = connect_ready();

                for (unsigned i = 0; i < N_LEASES; i++)
                        (void)take_lease(fd, 2 * MIB);
                ck_assert_int_eq(write(ready[1], &byte, 1), 1);
                for (;;)
                        (void)pause();
        }
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
        ck_assert_uint_eq(charged_bytes(), N_LEASES * 2 * MIB);
        child_kill(child);
        AWAIT(charged_bytes() == 0);
}

TESTS_MAIN("hasty", .limit_s = 60, .start = start, .stop = stop)
