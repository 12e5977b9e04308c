/* SPDX-License-Identifier: Apache-2.0 */
/* What a message there and back costs at the least: a child process that waits in epoll for datagrams
 * of a socket, as gpumemd does, and sends each back. One thread. */
#pragma once

#include <sys/types.h>

#define ECHO_BYTES 64

struct echo {
        pid_t pid; /* 0: none */
        int socket;
};

#define ECHO_NULL ((struct echo){.socket = -1})

/* The caller has no threads. */
int echo_init(struct echo *ret_echo);
void echo_deinit(struct echo *echo);

enum echo_answer { ECHO_BARE = 'b', ECHO_WITH_FD = 'f' };

/* There and back; a fd that comes with the answer is closed. */
int echo_call(struct echo *echo, enum echo_answer answer);
