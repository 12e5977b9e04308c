/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/frames_world.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "proto/address.h"
#include "tests/live/support/world.h"

unsigned n_fds_before;

int connect_raw(void)
{
        struct sockaddr_un address;
        struct timeval patience = {.tv_sec = 20};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        return fd;
}

int receive(int fd, struct frame *ret_frame, struct fdset *ret_fds)
{
        struct proto_reason reason;

        return frame_socket_receive(fd, FROM_DAEMON, ret_frame, ret_fds, &reason);
}

struct frame expect(int fd, enum message_kind kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        ck_assert_int_eq(receive(fd, &frame, &fds), 0);
        ck_assert_msg(frame.kind == kind, "%s came, not %s: %s", proto_name(frame.kind),
                      proto_name(kind), frame.kind == MESSAGE_ERROR ? frame.error.text : "");
        fdset_deinit(&fds);
        return frame;
}

void expect_error(int fd, uint32_t serial, enum gpumem_error code)
{
        struct frame frame = expect(fd, MESSAGE_ERROR);

        ck_assert_uint_eq(frame.serial, serial);
        ck_assert_msg(frame.error.code == code, "\"%s\": %s", frame.error.text,
                      gpumem_strerror((int)frame.error.code));
        ck_assert_str_ne(frame.error.text, "");
}

void expect_end(int fd)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        ck_assert_int_eq(receive(fd, &frame, &fds), GPUMEM_E_DISCONNECTED);
}

void expect_dropped(int fd, uint32_t serial, enum gpumem_error code)
{
        expect_error(fd, serial, code);
        expect_end(fd);
        closep(&fd);
}

void send_bytes(int fd, const void *bytes, size_t n_bytes)
{
        ck_assert_int_eq(send(fd, bytes, n_bytes, MSG_NOSIGNAL), (ssize_t)n_bytes);
}

void send_frame(int fd, struct frame *frame, enum message_kind kind, uint32_t serial)
{
        proto_seal(frame, kind, serial, 0);
        ck_assert_int_eq(frame_socket_send(fd, frame, NULL), 0);
}

void must_serve(int fd)
{
        struct frame frame = FRAME_NULL;

        send_frame(fd, &frame, MESSAGE_STATS, 77);
        ck_assert_uint_eq(expect(fd, MESSAGE_STATS_REPLY).serial, 77);
}

struct frame hello_frame(void)
{
        struct frame frame = FRAME_NULL;

        frame.hello = (struct message_hello){.magic = PROTO_MAGIC, .version = PROTO_VERSION};
        proto_put_text(frame.hello.program, sizeof(frame.hello.program), "test");
        proto_seal(&frame, MESSAGE_HELLO, 1, 0);
        return frame;
}

int connect_ready(void)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        (void)expect(fd, MESSAGE_WELCOME);
        return fd;
}

int connect_from_child(uid_t uid, pid_t *ret_child)
{
        int ready[2], fd, copy, pidfd;

        ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
        *ret_child = fork();
        if (*ret_child == 0) {
                ck_assert_int_eq(seteuid(uid), 0);
                fd = connect_ready();
                ck_assert_int_eq(write(ready[1], &fd, sizeof(fd)), sizeof(fd));
                for (;;)
                        (void)pause();
        }
        closep(&ready[1]);
        ck_assert_int_eq(read(ready[0], &fd, sizeof(fd)), sizeof(fd));
        pidfd = (int)syscall(SYS_pidfd_open, *ret_child, 0);
        ck_assert_int_ge(pidfd, 0);
        copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        ck_assert_int_ge(copy, 0);
        closep(&pidfd);
        closep(&ready[0]);
        return copy;
}

struct frame lease_frame(uint32_t pool, uint64_t n_bytes, uint32_t wait_ms)
{
        struct frame frame = FRAME_NULL;

        frame.lease = (struct message_lease){.n_bytes = n_bytes, .pool = pool, .wait_ms = wait_ms};
        return frame;
}

uint64_t take_lease(int fd, uint64_t n_bytes)
{
        struct frame frame = lease_frame(0, n_bytes, 0);

        send_frame(fd, &frame, MESSAGE_LEASE, 100);
        return expect(fd, MESSAGE_LEASED).leased.lease;
}

void give_back(int fd, uint64_t lease, uint32_t flags, uint32_t serial)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = flags;
        send_frame(fd, &frame, MESSAGE_RETURN, serial);
}

void frames_start(void)
{
        int fd;

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--device-bytes", "256MiB"));
        /* A driver opens files of its own when it first works. */
        fd = connect_ready();
        give_back(fd, take_lease(fd, 2 * MIB), PROTO_RETURN_UNMAPPED, 2);
        closep(&fd);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

void frames_stop(void)
{
        gpumemd.n_fds = n_fds_before;
        gpumemd_stop_empty();
}

void fill_cache(int fd, unsigned n_blocks)
{
        uint64_t *leases = calloc(n_blocks, sizeof(*leases));

        ck_assert_ptr_nonnull(leases);
        for (unsigned i = 0; i < n_blocks; i++)
                leases[i] = take_lease(fd, 2 * MIB);
        for (unsigned i = 0; i < n_blocks; i++)
                give_back(fd, leases[i], PROTO_RETURN_UNMAPPED, i);
        must_serve(fd);
        free(leases);
}

static void get_in_line(int fd)
{
        for (unsigned i = 0; i < N_IN_LINE; i++) {
                struct frame frame = lease_frame(0, 2 * MIB, 0);

                send_frame(fd, &frame, MESSAGE_LEASE, 1000 + i);
        }
}

uint64_t await_lease(int fd)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        do {
                ck_assert_int_eq(receive(fd, &frame, &fds), 0);
                fdset_deinit(&fds);
        } while (frame.kind == MESSAGE_NOTICE);
        ck_assert_msg(frame.kind == MESSAGE_LEASED, "%s came: %s", proto_name(frame.kind),
                      frame.kind == MESSAGE_ERROR ? frame.error.text : "");
        return frame.leased.lease;
}

/* Leases are numbered in the order in which they are granted. */
unsigned count_served_before(int fd, const int *others, unsigned n_others)
{
        unsigned n_before = 0;
        uint64_t last = 0;

        daemon_suspend(&gpumemd);
        for (unsigned i = 0; i < n_others; i++)
                get_in_line(others[i]);
        get_in_line(fd);
        daemon_resume(&gpumemd);
        for (unsigned i = 0; i < N_IN_LINE; i++) {
                last = await_lease(fd);
                give_back(fd, last, PROTO_RETURN_UNMAPPED, i);
        }
        for (unsigned i = 0; i < n_others * N_IN_LINE; i++) {
                uint64_t lease = await_lease(others[i / N_IN_LINE]);

                n_before += lease < last;
                give_back(others[i / N_IN_LINE], lease, PROTO_RETURN_UNMAPPED, i);
        }
        return n_before;
}
