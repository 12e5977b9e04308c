/* SPDX-License-Identifier: Apache-2.0 */
/* wire: frames and their fds over a real socket; what must not come is refused, and no fd is lost. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdset.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/suite.h"

static int ends[2];

static unsigned count_fds(void)
{
        DIR *folder = opendir("/proc/self/fd");
        unsigned n = 0;

        ck_assert_ptr_nonnull(folder);
        while (readdir(folder))
                n++;
        (void)closedir(folder);
        return n;
}

static void open_ends(void)
{
        ck_assert_int_eq(
                socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void close_ends(void)
{
        closep(&ends[0]);
        closep(&ends[1]);
}

static struct frame leased_frame(void)
{
        struct frame frame = FRAME_NULL;

        frame.leased = (struct message_leased){.lease = 1, .block = 2, .n_bytes = 3, .slot = 4};
        proto_seal(&frame, MESSAGE_LEASED, 9, 1);
        return frame;
}

static int receive(enum proto_sender sender, struct frame *ret_frame, struct fdset *ret_fds)
{
        struct proto_reason reason;

        return frame_socket_receive(ends[1], sender, ret_frame, ret_fds, &reason);
}

TEST(a_frame_brings_its_fd)
{
        struct frame frame = leased_frame(), received;
        struct fdset fds = FDSET_NULL;
        int file = memfd_create("test", MFD_CLOEXEC), fd;
        char byte = 0;

        ck_assert_int_eq(pwrite(file, "x", 1, 0), 1);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, &file), 0);
        ck_assert_int_eq(receive(FROM_DAEMON, &received, &fds), 0);
        ck_assert_mem_eq(&received, &frame, frame.n_bytes);
        ck_assert_uint_eq(fds.n, 1);
        fd = fdset_steal(&fds, 0);
        ck_assert_int_ne(fd, file);
        ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        ck_assert_int_eq(pread(fd, &byte, 1, 0), 1);
        ck_assert_int_eq(byte, 'x');
        closep(&fd);
        closep(&file);
}

TEST(the_daemon_takes_no_fd)
{
        struct frame frame = leased_frame(), received;
        struct fdset fds = FDSET_NULL;
        int file = memfd_create("test", MFD_CLOEXEC);
        unsigned n_before = count_fds();

        ck_assert_int_eq(frame_socket_send(ends[0], &frame, &file), 0);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_BAD_FRAME);
        ck_assert_uint_eq(fds.n, 0);
        ck_assert_uint_eq(count_fds(), n_before);
        closep(&file);
}

/* A frame that has not come yet may have fds, too. */
TEST(a_look_says_whether_the_next_frame_has_fds)
{
        struct frame frame = leased_frame(), received;
        struct fdset fds = FDSET_NULL;
        int file = memfd_create("test", MFD_CLOEXEC);
        bool brings_fds = true;

        ck_assert_int_eq(frame_socket_brings_fds(ends[1], &brings_fds), -EAGAIN);
        ck_assert(brings_fds);
        ck_assert_int_eq(send(ends[0], "", 1, 0), 1);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, &file), 0);
        ck_assert_int_eq(frame_socket_brings_fds(ends[1], &brings_fds), 0);
        ck_assert(!brings_fds);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_BAD_FRAME);
        ck_assert_int_eq(frame_socket_brings_fds(ends[1], &brings_fds), 0);
        ck_assert(brings_fds);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_BAD_FRAME);
        closep(&file);
}

/* One fd where the message carries none; more than the receiver takes; fewer than the header says. */
TEST(a_wrong_number_of_fds_is_refused)
{
        static const struct {
                unsigned n_said, n_sent;
        } cases[] = {{0, 1}, {1, 2}, {1, 0}, {6, 6}};
        int file = memfd_create("test", MFD_CLOEXEC);
        int files[6] = {file, file, file, file, file, file};
        unsigned n_before = count_fds();

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                union {
                        struct cmsghdr header;
                        char bytes[CMSG_SPACE(sizeof(files))];
                } control = {.bytes = {0}};
                struct frame frame = leased_frame(), received;
                struct iovec bytes = {&frame, frame.n_bytes};
                struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
                struct fdset fds = FDSET_NULL;

                frame.n_fds = (uint16_t)cases[i].n_said;
                if (cases[i].n_sent) {
                        message.msg_control = &control;
                        message.msg_controllen = CMSG_SPACE(cases[i].n_sent * sizeof(int));
                        control.header.cmsg_level = SOL_SOCKET;
                        control.header.cmsg_type = SCM_RIGHTS;
                        control.header.cmsg_len = CMSG_LEN(cases[i].n_sent * sizeof(int));
                        memcpy(CMSG_DATA(&control.header), files, cases[i].n_sent * sizeof(int));
                }
                ck_assert_int_eq(sendmsg(ends[0], &message, 0), (ssize_t)frame.n_bytes);
                ck_assert_int_eq(receive(FROM_DAEMON, &received, &fds), GPUMEM_E_BAD_FRAME);
                ck_assert_uint_eq(count_fds(), n_before);
        }
        closep(&file);
}

TEST(an_end_is_no_empty_datagram)
{
        struct frame received;
        struct fdset fds = FDSET_NULL;

        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), -EAGAIN);
        ck_assert_int_eq(send(ends[0], "", 0, 0), 0);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_BAD_FRAME);
        closep(&ends[0]);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_DISCONNECTED);
}

TEST(what_came_before_the_end_is_read)
{
        struct frame frame = FRAME_NULL, received;
        struct fdset fds = FDSET_NULL;

        frame.unmapped.lease = 5;
        proto_seal(&frame, MESSAGE_UNMAPPED, 1, 0);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, NULL), 0);
        closep(&ends[0]);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), 0);
        ck_assert_uint_eq(received.unmapped.lease, 5);
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_DISCONNECTED);
}

TEST(too_many_bytes_are_refused)
{
        char bytes[4096] = {0};
        struct frame received;
        struct fdset fds = FDSET_NULL;

        ck_assert_int_eq(send(ends[0], bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
        ck_assert_int_eq(receive(FROM_CLIENT, &received, &fds), GPUMEM_E_BAD_FRAME);
}

TEST(a_full_socket_says_so)
{
        struct frame frame = FRAME_NULL;
        int r = 0;

        proto_seal(&frame, MESSAGE_STATS, 1, 0);
        for (unsigned i = 0; i < 100000 && r == 0; i++)
                r = frame_socket_send(ends[0], &frame, NULL);
        ck_assert_int_eq(r, -EAGAIN);
        closep(&ends[1]);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, NULL), GPUMEM_E_DISCONNECTED);
}

static struct frame_inbox inbox;

static void send_unmapped(uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        proto_seal(&frame, MESSAGE_UNMAPPED, 1, 0);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, NULL), 0);
}

static int take(uint64_t *ret_lease)
{
        struct frame received = FRAME_NULL;
        struct proto_reason reason;
        int r = frame_inbox_receive(&inbox, ends[1], &received, &reason);

        if (!r)
                *ret_lease = received.unmapped.lease;
        return r;
}

static void expect_lease(uint64_t expected)
{
        uint64_t lease = 0;

        ck_assert_int_eq(take(&lease), 0);
        ck_assert_uint_eq(lease, expected);
}

TEST(what_is_there_is_read_together_and_each_has_its_turn)
{
        uint64_t lease;

        inbox = FRAME_INBOX_NULL;
        send_unmapped(1);
        send_unmapped(2);
        expect_lease(1);
        ck_assert(frame_inbox_has_more(&inbox));
        ck_assert_int_eq(recv(ends[1], &lease, sizeof(lease), 0), -1);
        /* What came meanwhile is behind it. */
        send_unmapped(3);
        expect_lease(2);
        ck_assert(!frame_inbox_has_more(&inbox));
        expect_lease(3);
        ck_assert(inbox.is_all && !frame_inbox_has_more(&inbox));
        ck_assert_int_eq(take(&lease), -EAGAIN);
}

TEST(a_full_inbox_may_not_be_all)
{
        uint64_t lease;

        inbox = FRAME_INBOX_NULL;
        for (uint64_t i = 1; i <= FRAME_INBOX_MAX + 1; i++)
                send_unmapped(i);
        for (uint64_t i = 1; i <= FRAME_INBOX_MAX; i++) {
                expect_lease(i);
                ck_assert(!inbox.is_all);
        }
        expect_lease(FRAME_INBOX_MAX + 1);
        ck_assert(inbox.is_all);
        ck_assert_int_eq(take(&lease), -EAGAIN);
}

TEST(what_is_wrong_in_an_inbox_is_found_at_its_turn)
{
        struct frame frame = leased_frame();
        int file = memfd_create("test", MFD_CLOEXEC);
        unsigned n_before = count_fds();
        char bytes[4096] = {0};
        uint64_t lease;

        inbox = FRAME_INBOX_NULL;
        send_unmapped(1);
        ck_assert_int_eq(frame_socket_send(ends[0], &frame, &file), 0);
        ck_assert_int_eq(send(ends[0], bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
        ck_assert_int_eq(send(ends[0], "", 0, 0), 0);
        expect_lease(1);
        ck_assert_uint_eq(count_fds(), n_before);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(take(&lease), GPUMEM_E_BAD_FRAME);
        ck_assert_int_eq(take(&lease), -EAGAIN);
        closep(&file);
}

/* The kernel reports the end as often as it is asked. A peer that leaves something unread resets the connection. */
TEST(an_inbox_returns_frames_before_the_end)
{
        struct frame frame = leased_frame();
        int file = memfd_create("test", MFD_CLOEXEC);
        uint64_t lease;

        inbox = FRAME_INBOX_NULL;
        send_unmapped(1);
        ck_assert_int_eq(frame_socket_send(ends[1], &frame, &file), 0);
        closep(&ends[0]);
        expect_lease(1);
        ck_assert_int_eq(take(&lease), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(take(&lease), GPUMEM_E_DISCONNECTED);
        closep(&file);
}

TESTS_MAIN("frames", .start = open_ends, .stop = close_ends)
