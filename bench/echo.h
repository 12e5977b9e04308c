/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the lowest cost of a message and its reply: a child process waits in epoll for datagrams on a
 * socket, as gpumemd does, and sends each back. One thread. */
#pragma once

#include <sys/types.h>

#define ECHO_BYTES 64

struct echo {
        pid_t pid; /* 0: none */
        int socket;
};

#define ECHO_NULL ((struct echo){.socket = -1})

/* The caller must have no threads. */
int echo_init(struct echo *ret_echo);
void echo_deinit(struct echo *echo);

enum echo_answer { ECHO_BARE = 'b', ECHO_WITH_FD = 'f' };

/* Sends a message and waits for the reply. Closes a fd that comes with it. */
int echo_call(struct echo *echo, enum echo_answer answer);
