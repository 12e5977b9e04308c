/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/echo.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

#define EVENTS_MAX 64

union control {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header; /* for its alignment */
};

static int send_answer(int socket, char bytes[ECHO_BYTES], int fd)
{
        union control control = {.bytes = {0}};
        struct iovec part = {.iov_base = bytes, .iov_len = ECHO_BYTES};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (bytes[0] == ECHO_WITH_FD) {
                message.msg_control = control.bytes;
                message.msg_controllen = sizeof(control.bytes);
                control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS,
                                                  .cmsg_len = CMSG_LEN(sizeof(fd))};
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL) == ECHO_BYTES ? 0 : -EIO;
}

/* False: the other end is closed. */
static bool answer_one(int socket, int any_fd)
{
        char bytes[ECHO_BYTES];
        struct iovec part = {.iov_base = bytes, .iov_len = ECHO_BYTES};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (recvmsg(socket, &message, 0) != ECHO_BYTES)
                return false;
        return bytes[0] == ECHO_NONE || send_answer(socket, bytes, any_fd) == 0;
}

/* Serves until all other ends are closed. */
static int serve(const int *sockets, unsigned n)
{
        int poll = epoll_create1(EPOLL_CLOEXEC);

        if (poll < 0)
                return err_errno();
        for (unsigned i = 0; i < n; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};

                if (epoll_ctl(poll, EPOLL_CTL_ADD, sockets[i], &event) < 0)
                        return err_errno();
        }
        while (n) {
                struct epoll_event events[EVENTS_MAX];
                int n_events = epoll_wait(poll, events, EVENTS_MAX, -1);

                for (int i = 0; i < n_events; i++) {
                        if (answer_one(events[i].data.fd, poll))
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

int echo_call(struct echo *echo, enum echo_answer answer)
{
        char bytes[ECHO_BYTES] = {(char)answer};
        struct iovec part = {.iov_base = bytes, .iov_len = ECHO_BYTES};
        union control control;
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        int fd;

        if (send(echo->socket, bytes, ECHO_BYTES, MSG_NOSIGNAL) != ECHO_BYTES)
                return -EIO;
        if (answer == ECHO_NONE)
                return 0;
        if (recvmsg(echo->socket, &message, MSG_CMSG_CLOEXEC) != ECHO_BYTES)
                return -EIO;
        if (answer == ECHO_BARE)
                return 0;
        if (message.msg_controllen < CMSG_LEN(sizeof(fd)))
                return -EPROTO;
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        return close(fd) < 0 ? err_errno() : 0;
}
