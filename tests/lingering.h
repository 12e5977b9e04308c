/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP socket that lingers for an hour, with bytes that its peer does not take: closing the last fd of it waits for as
 * long. */
#pragma once

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdset.h"

static inline int lingering_new(int *ret_peer)
{
        static const char bytes[65536];
        const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t n = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, n), 0);
        ck_assert_int_eq(listen(listener, 1), 0);
        ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &n), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, n), 0);
        *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        ck_assert_int_ge(*ret_peer, 0);
        closep(&listener);
        ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
                continue;
        ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
        return fd;
}

/* The process that receives these bytes, or drops them, has the last fd. Returns the peer, which must stay
 * open. */
static inline int lingering_send(int socket, const void *bytes, size_t n_bytes)
{
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec part = {(void *)bytes, n_bytes};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        int peer, fd = lingering_new(&peer);

        control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        ck_assert_int_eq(sendmsg(socket, &message, MSG_NOSIGNAL), (int)n_bytes);
        closep(&fd);
        return peer;
}
