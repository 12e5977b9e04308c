/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/echo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

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

/* Serves until the other end is closed. */
static int serve(int socket)
{
        struct epoll_event event = {.events = EPOLLIN};
        int poll = epoll_create1(EPOLL_CLOEXEC);
        char bytes[ECHO_BYTES];

        if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) < 0)
                return err_errno();
        for (;;) {
                struct iovec part = {.iov_base = bytes, .iov_len = ECHO_BYTES};
                struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

                if (epoll_wait(poll, &event, 1, -1) != 1 ||
                    recvmsg(socket, &message, 0) != ECHO_BYTES)
                        return 0;
                /* Any fd will do. */
                if (send_answer(socket, bytes, poll))
                        return -EIO;
        }
}

int echo_init(struct echo *ret_echo)
{
        int sockets[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return err_errno();
        pid = fork();
        if (pid == 0) {
                (void)close(sockets[0]);
                _exit(serve(sockets[1]) ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        (void)close(sockets[1]);
        if (pid < 0) {
                (void)close(sockets[0]);
                return -EAGAIN;
        }
        *ret_echo = (struct echo){.pid = pid, .socket = sockets[0]};
        return 0;
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

        if (send(echo->socket, bytes, ECHO_BYTES, MSG_NOSIGNAL) != ECHO_BYTES ||
            recvmsg(echo->socket, &message, MSG_CMSG_CLOEXEC) != ECHO_BYTES)
                return -EIO;
        if (answer == ECHO_BARE)
                return 0;
        if (message.msg_controllen < CMSG_LEN(sizeof(fd)))
                return -EPROTO;
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        return close(fd) < 0 ? err_errno() : 0;
}
