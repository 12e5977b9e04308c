/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/frame_socket.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "gpumem.h"

union control {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FDSET_MAX * sizeof(int))];
};

static void put_fds(struct msghdr *message, union control *control, const int *fds, unsigned n_fds)
{
        struct cmsghdr *header;

        message->msg_control = control;
        message->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        header = CMSG_FIRSTHDR(message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
}

static int send_frame(int socket, const struct frame *frame, const int *fds, int flags)
{
        struct iovec bytes = {(void *)frame, frame->n_bytes};
        struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
        union control control = {.bytes = {0}};
        ssize_t n;

        if (fds && frame->n_fds)
                put_fds(&message, &control, fds, frame->n_fds);
        do {
                n = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
        } while (n < 0 && errno == EINTR);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
                return GPUMEM_E_DISCONNECTED;
        if (n < 0)
                return err_errno();
        return (size_t)n == frame->n_bytes ? 0 : -EMSGSIZE;
}

int frame_socket_send(int socket, const struct frame *frame, const int *fds)
{
        return send_frame(socket, frame, fds, 0);
}

int frame_socket_send_now(int socket, const struct frame *frame)
{
        return send_frame(socket, frame, NULL, MSG_DONTWAIT);
}

static void take_fds(struct msghdr *message, struct fdset *set)
{
        for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
             header = CMSG_NXTHDR(message, header)) {
                size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
                        (void)fdset_add(set, fd);
                }
        }
}

/* A read of 0 bytes is the end, or an empty datagram from a peer that is still there. */
static int nothing_came(int socket, struct proto_reason *ret_reason)
{
        struct pollfd events = {.fd = socket, .events = POLLRDHUP};

        if (poll(&events, 1, 0) > 0 && events.revents & (POLLRDHUP | POLLHUP | POLLERR))
                return GPUMEM_E_DISCONNECTED;
        *ret_reason = (struct proto_reason){"an empty datagram", NULL};
        return GPUMEM_E_BAD_FRAME;
}

/* Receives one datagram. The daemon gives fds no room: the kernel drops any that a client sends. */
static int receive_datagram(int socket, enum proto_sender sender,
                            struct frame_datagram *ret_datagram, struct fdset *fds)
{
        struct iovec bytes = {&ret_datagram->bytes, sizeof(ret_datagram->bytes)};
        union control control;
        struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
        unsigned was_reset = 0;
        ssize_t n;

        if (sender == FROM_DAEMON) {
                message.msg_control = &control;
                message.msg_controllen = sizeof(control);
        }
        /* A reset is reported once, before the frames that the peer had sent until then. */
        do {
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        } while (n < 0 && errno == ECONNRESET && !was_reset++);
        if (n < 0)
                return errno == ECONNRESET ? GPUMEM_E_DISCONNECTED : err_errno();
        take_fds(&message, fds);
        ret_datagram->n_bytes = (size_t)n;
        ret_datagram->flags = message.msg_flags;
        return 0;
}

/* A reset is reported once, before the frames that the peer had sent until then. */
int frame_socket_brings_fds(int socket, bool *ret_brings_fds)
{
        struct msghdr message = {.msg_iovlen = 0};
        ssize_t n = recvmsg(socket, &message, MSG_PEEK);

        if (n < 0 && errno == ECONNRESET)
                n = recvmsg(socket, &message, MSG_PEEK);
        if (n < 0)
                return errno == ECONNRESET ? GPUMEM_E_DISCONNECTED : err_errno();
        *ret_brings_fds = message.msg_flags & MSG_CTRUNC;
        return 0;
}

static int decode_datagram(int socket, enum proto_sender sender,
                           const struct frame_datagram *datagram, unsigned n_fds,
                           struct frame *ret_frame, struct proto_reason *ret_reason)
{
        if (datagram->flags & MSG_CTRUNC) {
                *ret_reason = (struct proto_reason){"fds that this side cannot take", NULL};
                return GPUMEM_E_BAD_FRAME;
        }
        if (datagram->n_bytes == 0)
                return nothing_came(socket, ret_reason);
        if (datagram->flags & MSG_TRUNC) {
                *ret_reason = (struct proto_reason){"more bytes than any message has", NULL};
                return GPUMEM_E_BAD_FRAME;
        }
        return proto_decode(&datagram->bytes, datagram->n_bytes, n_fds, sender, ret_frame,
                            ret_reason);
}

int frame_socket_receive(int socket, enum proto_sender sender, struct frame *ret_frame,
                         struct fdset *ret_fds, struct proto_reason *ret_reason)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame_datagram datagram;
        int r = receive_datagram(socket, sender, &datagram, &fds);

        if (!r)
                r = decode_datagram(socket, sender, &datagram, fds.n, ret_frame, ret_reason);
        if (r)
                return r;
        *ret_fds = fds;
        fds = FDSET_NULL;
        return 0;
}

/* The inbox is empty. It gives fds no room: the kernel drops any that a client sends. */
static int fill(struct frame_inbox *inbox, int socket)
{
        struct iovec bytes[FRAME_INBOX_MAX];
        struct mmsghdr messages[FRAME_INBOX_MAX];
        unsigned was_reset = 0;
        int n;

        for (unsigned i = 0; i < FRAME_INBOX_MAX; i++) {
                bytes[i] = (struct iovec){&inbox->datagrams[i].bytes,
                                          sizeof(inbox->datagrams[i].bytes)};
                messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &bytes[i], .msg_iovlen = 1}};
        }
        do {
                n = recvmmsg(socket, messages, FRAME_INBOX_MAX, MSG_DONTWAIT, NULL);
        } while (n < 0 && errno == ECONNRESET && !was_reset++);
        inbox->is_all = n < FRAME_INBOX_MAX;
        if (n < 0)
                return errno == ECONNRESET ? GPUMEM_E_DISCONNECTED : err_errno();
        for (int i = 0; i < n; i++) {
                inbox->datagrams[i].n_bytes = messages[i].msg_len;
                inbox->datagrams[i].flags = messages[i].msg_hdr.msg_flags;
        }
        inbox->n = (unsigned)n;
        inbox->next = 0;
        return 0;
}

int frame_inbox_receive(struct frame_inbox *inbox, int socket, struct frame *ret_frame,
                        struct proto_reason *ret_reason)
{
        int r = frame_inbox_has_more(inbox) ? 0 : fill(inbox, socket);

        if (r)
                return r;
        return decode_datagram(socket, FROM_CLIENT, &inbox->datagrams[inbox->next++], 0, ret_frame,
                               ret_reason);
}
