/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may send that it should not: each is answered with its own error, ends at most its
 * own connection, and leaves nothing behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/wire.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/suite.h"

/* Frames that are no frames: after each the connection ends, with a reason. */
static size_t spoil(unsigned way, struct frame *frame)
{
        switch (way) {
        case 0:
                return frame->n_bytes - 1; /* cut short */
        case 1:
                return 7; /* less than a header */
        case 2:
                frame->n_bytes += 8;
                return frame->n_bytes; /* longer than the message */
        case 3:
                frame->flags = 1; /* reserved bits */
                return frame->n_bytes;
        case 4:
                frame->n_fds = 1; /* a fd that did not come */
                return frame->n_bytes;
        case 5:
                frame->return_lease.lease = 1;
                frame->return_lease.flags = 0;
                frame->return_lease.reserved = 1;
                proto_seal(frame, MESSAGE_RETURN, 2, 0);
                return frame->n_bytes;
        case 6:
                frame->lease.properties = 1u << 31;
                return frame->n_bytes;
        case 7:
                frame->kind = MESSAGE_LEASED; /* the daemon's word */
                return frame->n_bytes;
        default:
                return 0; /* nothing at all */
        }
}

TEST(a_malformed_frame_ends_its_connection_only, .to = 9)
{
        struct frame lease = lease_frame(0, 2 * MIB, 0);
        int fd = connect_ready(), other = connect_ready();
        size_t n_bytes;

        proto_seal(&lease, MESSAGE_LEASE, 2, 0);
        n_bytes = spoil((unsigned)_i, &lease);
        send_bytes(fd, &lease, n_bytes);
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        closep(&fd);
        closep(&other);
}

TEST(a_huge_frame_ends_its_connection_only)
{
        static char bytes[65536];
        int fd = connect_ready();

        send_bytes(fd, bytes, sizeof(bytes));
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}

TEST(fds_from_a_client_are_dropped_with_it)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), file = open("/dev/null", O_RDONLY | O_CLOEXEC), r;

        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        frame.n_fds = 1;
        r = wire_send(fd, &frame, &file);
        /* Linux 6.16 lets the daemon forbid it: then nothing is sent at all. */
        ck_assert(r == 0 || r == -EPERM);
        if (r == 0) {
                expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
                expect_end(fd);
        }
        closep(&fd);
        closep(&file);
}

/* Hangs up with an answer unread: what it had sent before counts all the same. */
TEST(what_was_sent_before_a_reset_counts)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 4 * MIB);

        send_frame(fd, &frame, MESSAGE_POOLS, 7);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 8);
        closep(&fd);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
}

TEST(the_first_frame_is_hello)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_raw();

        send_frame(fd, &frame, MESSAGE_STATS, 2);
        expect_error(fd, 2, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}

TEST(hello_comes_once)
{
        struct frame hello = hello_frame();
        int fd = connect_ready();

        send_frame(fd, &hello, MESSAGE_HELLO, 2);
        expect_error(fd, 2, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}

TEST(a_wrong_magic_is_no_hello)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.magic++;
        send_bytes(fd, &hello, hello.n_bytes);
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}

TEST(a_client_of_a_later_version_is_welcome)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.version = UINT32_MAX;
        hello.hello.features = UINT64_MAX;
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        hello = expect(fd, MESSAGE_WELCOME);
        ck_assert_uint_eq(hello.welcome.version, PROTO_VERSION);
        ck_assert_uint_eq(hello.welcome.features, PROTO_FEATURES);
        closep(&fd);
}

TEST(an_unknown_kind_is_answered_and_no_more)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        frame.kind = 0x7001;
        send_bytes(fd, &frame, frame.n_bytes);
        expect_error(fd, 2, GPUMEM_E_UNKNOWN_KIND);
        send_frame(fd, &frame, MESSAGE_STATS, 3);
        ck_assert_uint_eq(expect(fd, MESSAGE_STATS_REPLY).serial, 3);
        closep(&fd);
}

/* Well-formed requests that cannot be: the connection goes on. */
TEST(impossible_requests_are_refused)
{
        static const struct {
                uint32_t pool;
                uint64_t n_bytes;
                enum gpumem_error code;
        } cases[] = {
                {0, 0, GPUMEM_E_BAD_REQUEST},       {0, MIB, GPUMEM_E_BAD_REQUEST},
                {0, 512 * MIB, GPUMEM_E_TOO_LARGE}, {0, UINT64_MAX, GPUMEM_E_BAD_REQUEST},
                {99, 2 * MIB, GPUMEM_E_NO_POOL},    {UINT32_MAX, 2 * MIB, GPUMEM_E_NO_POOL},
        };
        int fd = connect_ready();

        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct frame frame = lease_frame(cases[i].pool, cases[i].n_bytes, 0);

                send_frame(fd, &frame, MESSAGE_LEASE, 10 + i);
                expect_error(fd, 10 + i, cases[i].code);
        }
        closep(&fd);
}

TEST(foreign_leases_are_not_given_back)
{
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 2 * MIB);

        give_back(other, lease, PROTO_RETURN_UNMAPPED, 3);
        expect_error(other, 3, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 3);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 4);
        expect_error(owner, 4, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
        closep(&owner);
        closep(&other);
}

/* Asks for more than it reads, until the daemon reads nothing from it any more; nobody else waits, and
 * no fds are kept for it. When it hangs up, with all that unread, nothing of it stays. */
TEST(a_client_that_never_reads_harms_nobody)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), other = connect_ready();

        ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        for (unsigned n_full = 0; n_full < 20; n_full++) {
                while (wire_send(fd, &frame, NULL) == 0) {
                }
                sleep_ms(5);
        }
        ck_assert_uint_lt(daemon_quiet_fds(&gpumemd), n_fds_before + 10);
        send_frame(other, &frame, MESSAGE_STATS, 3);
        ck_assert_uint_eq(expect(other, MESSAGE_STATS_REPLY).serial, 3);
        closep(&fd);
        closep(&other);
}

/* Of one that has not read all the loop is told an error, and nothing after that. What it said before is more than
 * the daemon takes in a turn, and at its end it gives back what it had. */
TEST(who_hangs_up_having_said_much_is_heard_to_the_end)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(fd, 2 * MIB);
        char byte;

        send_frame(fd, &frame, MESSAGE_STATS, 2);
        ck_assert_int_eq(recv(fd, &byte, 1, MSG_PEEK), 1);
        daemon_suspend(&gpumemd);
        frame.cancel.request = 4711;
        for (unsigned i = 0; i < 50; i++)
                send_frame(fd, &frame, MESSAGE_CANCEL, 3 + i);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 100);
        closep(&fd);
        daemon_resume(&gpumemd);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        closep(&other);
}

TEST(noise_never_harms_others)
{
        unsigned seed = 7;
        int other = connect_ready();

        for (unsigned round = 0; round < 300; round++) {
                char bytes[160];
                struct frame frame = hello_frame();
                int fd = connect_raw();

                memcpy(bytes, &frame,
                       sizeof(frame) < sizeof(bytes) ? sizeof(frame) : sizeof(bytes));
                for (unsigned i = 0; i < 4; i++)
                        bytes[(unsigned)rand_r(&seed) % frame.n_bytes] = (char)rand_r(&seed);
                send_bytes(fd, bytes, frame.n_bytes);
                closep(&fd);
        }
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        closep(&other);
}

TESTS_MAIN("frames", .limit_s = 60, .start = frames_start, .stop = frames_stop)
