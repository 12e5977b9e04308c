/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on a SOCK_SEQPACKET socket, with their fds. Stateless; any thread, as long as one thread
 * at a time reads a socket. */
#pragma once

#include <stdbool.h>

#include "base/fdset.h"
#include "proto/proto.h"

/* Sends a sealed frame whole or not at all. `fds` are borrowed: frame->n_fds of them.
 * -EAGAIN when a non-blocking socket is full; GPUMEM_E_DISCONNECTED when the peer is gone. */
int wire_send(int socket, const struct frame *frame, const int *fds);

/* A frame without fds; -EAGAIN when the socket is full, also if it is a blocking one. */
int wire_send_now(int socket, const struct frame *frame);

/* Whether fds come with the next frame. They stay where they are: who takes that frame, or closes the socket, may be
 * the last who has them, and may wait for what they are of. */
bool wire_brings_fds(int socket);

/* Receives one frame from `sender`. ret_fds owns the fds that came, all close-on-exec.
 * GPUMEM_E_DISCONNECTED at the end of the connection; GPUMEM_E_BAD_FRAME with a reason, and
 * GPUMEM_E_UNKNOWN_KIND, as proto_decode says; -EAGAIN when there is nothing now, -EINTR
 * when a signal came first; other -errno.
 * Whatever fds came with a frame that is not returned are closed. */
int wire_receive(int socket, enum proto_sender sender, struct frame *ret_frame,
                 struct fdset *ret_fds, struct proto_reason *ret_reason);
