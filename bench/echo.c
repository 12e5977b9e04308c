/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/echo.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "proto/frame_socket.h"

#define EVENTS_MAX  64
#define LEASE_BYTES (2 * MIB)

static int answer_known(int socket, uint32_t serial)
{
        struct frame frame = FRAME_NULL;

        frame.known.lease = frame.known.block = 1;
        frame.known.n_bytes = LEASE_BYTES;
        proto_seal(&frame, MESSAGE_KNOWN, serial, 0);
        return frame_socket_send(socket, &frame, NULL);
}

static int answer(int socket, uint32_t serial, int fd)
{
        struct frame frame = FRAME_NULL;

        frame.leased.lease = frame.leased.block = 1;
        frame.leased.n_bytes = LEASE_BYTES;
        proto_seal(&frame, MESSAGE_LEASED, serial, 1);
        return frame_socket_send(socket, &frame, &fd);
}

/* False: the other end is closed. */
static bool take_one(int socket, int fd)
{
        struct frame frame;
        struct iovec part = {.iov_base = &frame, .iov_len = sizeof(frame)};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (recvmsg(socket, &message, 0) <= 0)
                return false;
        if (frame.kind != MESSAGE_LEASE)
                return true;
        return (frame.lease.flags & PROTO_LEASE_KNOWN ? answer_known(socket, frame.serial)
                                                      : answer(socket, frame.serial, fd)) == 0;
}

/* Serves until all other ends are closed. */
static int serve(const int *sockets, unsigned n)
{
        int poll = epoll_create1(EPOLL_CLOEXEC), fd, r;

        if (poll < 0)
                return err_errno();
        r = memfd_new("gpumem-echo", LEASE_BYTES, &fd);
        if (r)
                return r;
        for (unsigned i = 0; i < n; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};

                if (epoll_ctl(poll, EPOLL_CTL_ADD, sockets[i], &event) < 0)
                        return err_errno();
        }
        while (n) {
                struct epoll_event events[EVENTS_MAX];
                int n_events = epoll_wait(poll, events, EVENTS_MAX, -1);

                for (int i = 0; i < n_events; i++) {
                        if (take_one(events[i].data.fd, fd))
                                continue;
                        (void)close(events[i].data.fd);
                        n--;
                }
        }
        return 0;
}

static int open_pairs(unsigned n, struct echo *members, int *theirs)
{
        for (unsigned i = 0; i < n; i++) {
                int sockets[2];

                if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                        return err_errno();
                members[i].socket = sockets[0];
                theirs[i] = sockets[1];
        }
        return 0;
}

static int fork_server(unsigned n, struct echo *members, int *theirs)
{
        pid_t pid = fork();

        if (pid == 0) {
                for (unsigned i = 0; i < n; i++)
                        closep(&members[i].socket);
                _exit(serve(theirs, n) ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        if (pid < 0)
                return -EAGAIN;
        members[0].pid = pid;
        return 0;
}

int echo_init_members(unsigned n, struct echo *ret_members)
{
        int theirs[ECHO_MEMBERS_MAX], r;

        if (n > ECHO_MEMBERS_MAX)
                return -EINVAL;
        for (unsigned i = 0; i < n; i++) {
                ret_members[i] = ECHO_NULL;
                theirs[i] = -1;
        }
        r = open_pairs(n, ret_members, theirs);
        if (!r)
                r = fork_server(n, ret_members, theirs);
        for (unsigned i = 0; i < n; i++) {
                closep(&theirs[i]);
                if (r)
                        closep(&ret_members[i].socket);
        }
        return r;
}

int echo_init(struct echo *ret_echo)
{
        return echo_init_members(1, ret_echo);
}

void echo_deinit(struct echo *echo)
{
        closep(&echo->socket);
        if (echo->pid)
                (void)waitpid(echo->pid, NULL, 0);
        *echo = ECHO_NULL;
}

static int call(int socket, uint32_t flags, struct frame *ret_reply)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame frame = FRAME_NULL;
        struct proto_reason reason;
        int r;

        frame.lease.n_bytes = LEASE_BYTES;
        frame.lease.flags = flags;
        proto_seal(&frame, MESSAGE_LEASE, 1, 0);
        r = frame_socket_send(socket, &frame, NULL);
        return r ? r : frame_socket_receive(socket, FROM_DAEMON, ret_reply, &fds, &reason);
}

int echo_lease(struct echo *echo)
{
        struct frame reply, frame = FRAME_NULL;
        int r = call(echo->socket, 0, &reply);

        if (r)
                return r;
        frame.return_lease.lease = reply.leased.lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        proto_seal(&frame, MESSAGE_RETURN, 2, 0);
        return frame_socket_send(echo->socket, &frame, NULL);
}

int echo_known(struct echo *echo)
{
        struct frame reply, unmapped = FRAME_NULL, frame = FRAME_NULL;
        int r = call(echo->socket, PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN, &reply);

        if (r)
                return r;
        unmapped.unmapped.lease = frame.return_lease.lease = reply.known.lease;
        proto_seal(&unmapped, MESSAGE_UNMAPPED, 2, 0);
        proto_seal(&frame, MESSAGE_RETURN, 3, 0);
        r = frame_socket_send(echo->socket, &unmapped, NULL);
        return r ? r : frame_socket_send(echo->socket, &frame, NULL);
}
