/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the lowest cost of a lease's messages. A child process waits in epoll, as gpumemd does. It answers each
 * LEASE with a LEASED and a fd, always the same; one that may be KNOWN with that. It takes other frames without an answer.
 * One thread. */
#pragma once

#include <sys/types.h>

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

/* Asks for a lease, closes the fd that comes with it, and returns the lease. */
int echo_lease(struct echo *echo);

/* Asks for a lease of a block that is known, and says that the one before is unmapped, and returns this one. */
int echo_known(struct echo *echo);
