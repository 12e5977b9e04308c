/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives frames on a SOCK_SEQPACKET socket, with their fds. Stateless but for inboxes; any thread, but only one
 * at a time may read a socket. */
#pragma once

#include <stdbool.h>

#include "base/fdset.h"
#include "proto/messages.h"

/* Sends a sealed frame whole or not at all. `fds` are borrowed: frame->n_fds of them. -EAGAIN: a non-blocking socket
 * is full; GPUMEM_E_DISCONNECTED: the peer is gone. */
int frame_socket_send(int socket, const struct frame *frame, const int *fds);

/* Sends a frame without fds; -EAGAIN: the socket is full, even if it is a blocking one. */
int frame_socket_send_now(int socket, const struct frame *frame);

/* Does the next frame have fds? They stay in the socket. The caller that receives this frame, or closes the socket, may
 * hold the last reference to their files, and may wait for them. GPUMEM_E_DISCONNECTED, -EAGAIN and other -errno as
 * frame_socket_receive. */
int frame_socket_brings_fds(int socket, bool *ret_brings_fds);

/* Receives one frame from `sender`. ret_fds owns the fds that came, all close-on-exec. GPUMEM_E_DISCONNECTED: the end
 * of the connection; GPUMEM_E_BAD_FRAME with a reason, and GPUMEM_E_UNKNOWN_KIND, as proto_decode; -EAGAIN: there is
 * nothing now; -EINTR: a signal came first; other -errno. Closes fds that came with a frame that it does not return. */
int frame_socket_receive(int socket, enum proto_sender sender, struct frame *ret_frame,
                         struct fdset *ret_fds, struct proto_reason *ret_reason);

/* Read at once from a client: as a rule it gives a lease back and asks for the next one. */
#define FRAME_INBOX_MAX 2

/* Datagrams that were read together, each for its turn. To read them one by one, and then to find no more, takes the kernel
 * longer. */
struct frame_inbox {
        unsigned n, next;
        bool is_all; /* the socket had no more when it was read, or an error, which the next read tells */
        struct frame_datagram {
                size_t n_bytes;
                int flags; /* of recvmsg */
                struct frame bytes;
        } datagrams[FRAME_INBOX_MAX];
};

#define FRAME_INBOX_NULL ((struct frame_inbox){.n = 0})

/* Receives a frame from a client without waiting: the inbox's next, or what the socket has. Results as of
 * frame_socket_receive, and never -EINTR. */
int frame_inbox_receive(struct frame_inbox *inbox, int socket, struct frame *ret_frame,
                        struct proto_reason *ret_reason);

/* Whether it has frames that were not returned yet. */
static inline bool frame_inbox_has_more(const struct frame_inbox *inbox)
{
        return inbox->next < inbox->n;
}
