/* SPDX-License-Identifier: Apache-2.0 */
/* Detects a forked child, which has no client. The child's copies of the sockets are closed, so that the daemon still
 * sees the parent's end. This holds for each socket from its creation to its close. A word that the kernel zeroes at
 * fork identifies a child with one load. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gpumem.h"

/* Handlers of forks are registered when the library is loaded: a fork that is under way when a thread first uses the
 * library calls none that comes later, and the child would have that thread's locks. Handlers that prepare a fork run in
 * the reverse order. So the lock of the service threads is taken first: who has it may wait for one of them, which may
 * close a socket. */
#define FORK_ORDER_SOCKETS  201
#define FORK_ORDER_SERVICES 202

/* A socket for connections to a daemon. It must not be moved while it is open. */
struct fork_socket {
        LIST_ENTRY(fork_socket) link;
        int fd; /* -1: none, also in a child */
};

int fork_socket_open(struct fork_socket *socket);

/* Legal for a socket that is not open, too. */
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
