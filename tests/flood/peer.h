/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the daemon by hand, for programs that press it. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

/* Connects to the daemon that GPUMEM_SOCKET names; -1: errno says why. */
int peer_connect(void);

/* The same to that daemon's admin socket. */
int peer_connect_admin(void);

/* Says HELLO: 0, what the daemon refuses it with, or -errno. */
int peer_hello(int fd);

/* Asks and waits for the answer of that kind: 0, what the daemon refuses it with, or -errno. */
int peer_call(int fd, struct frame *request, enum message_kind kind, enum message_kind reply_kind,
              struct frame *ret_reply);

/* Takes the next frame, and closes its fds: 0, or -errno, or how the connection ended. */
int peer_receive(int fd, struct frame *ret_frame);

/* Sends what has no answer, or whose answer is not waited for. */
int peer_send(int fd, struct frame *frame, enum message_kind kind);
