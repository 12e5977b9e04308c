/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the lowest cost of a message and its reply: a child process waits in epoll for datagrams on its
 * sockets, as gpumemd does, and sends each back. One thread. */
#pragma once

#include <sys/types.h>

#define ECHO_BYTES       64
#define ECHO_MEMBERS_MAX 256

struct echo {
        pid_t pid; /* 0: none */
        int socket;
};

#define ECHO_NULL ((struct echo){.socket = -1})

/* The caller must have no threads. */
int echo_init(struct echo *ret_echo);
void echo_deinit(struct echo *echo);

/* One child that serves n members. The first member's echo is the child's parent; each other one has a socket
 * only. The child ends when no process has a socket of a member any more. */
int echo_init_members(unsigned n, struct echo *ret_members);

enum echo_answer { ECHO_BARE = 'b', ECHO_WITH_FD = 'f', ECHO_NONE = 'n' };

/* Sends a message and waits for the reply, unless it is ECHO_NONE. Closes a fd that comes with it. */
int echo_call(struct echo *echo, enum echo_answer answer);
