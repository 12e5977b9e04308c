/* SPDX-License-Identifier: Apache-2.0 */
/* A forked child has no client. Its copies of the sockets are closed, so that the end of the parent is
 * still seen by the daemon: of every socket, from the moment that it is made to the moment that it is
 * closed. A word that the kernel wipes at fork tells the child apart in one load. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gpumem.h"

/* A socket for connections to a daemon. Not to be moved while it is open. */
struct fork_socket {
        LIST_ENTRY(fork_socket) link;
        int fd; /* -1: none, also in a child */
};

int fork_socket_open(struct fork_socket *socket);

/* Legal also for one that is not open. */
void fork_socket_close(struct fork_socket *socket);

struct fork_guard {
        _Atomic uint32_t *here; /* 1; 0 in a child */
};

int fork_guard_init(struct fork_guard *guard);
void fork_guard_deinit(struct fork_guard *guard);

/* GPUMEM_E_FORKED in a child of the process that made the guard. */
static inline int fork_guard_check(const struct fork_guard *guard)
{
        return atomic_load_explicit(guard->here, memory_order_relaxed) ? 0 : GPUMEM_E_FORKED;
}
