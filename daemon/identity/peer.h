/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies the peer of a connection, from the kernel; claims of the peer are not used.
 *
 * The peer is the process that called connect, even if another process has the socket now. From Linux 6.5
 * on the kernel provides its pidfd (SO_PEERPIDFD). On older kernels a pidfd is opened by pid, which may
 * have been reused: the process must have the same start time before and after, and the connection must be
 * open. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/identity/cgroup.h"

struct peer {
        pid_t pid; /* for messages: may be reused later; 0: in a pid namespace that the
                      * daemon does not see */
        uid_t uid;
        int pidfd;                       /* readable when the process has ended */
        int container_fault;             /* why `container` is unknown: a negative errno; or 0 */
        char container[CGROUP_PATH_MAX]; /* container of the process when it connected; "": none */
        uid_t container_owner; /* of its cgroup; the peer's uid if its path is too long; else 0 */
        uint64_t network; /* with container_fault: its network namespace's number; 0: unknown */
        uint64_t process; /* unique while the pidfd is open; 0: unknown */
};

#define PEER_NULL ((struct peer){.pid = 0, .pidfd = -1})

/* Identifies the process that connected. An unreadable container is not an error (container_fault). -ESRCH:
 * the process has ended. -EREMOTE: it cannot be identified by its pid, nor in another way. -EOVERFLOW:
 * its uid is not mapped here. Or an error of pidfd_open or of reading /proc. */
int peer_init(struct peer *peer, int socket);
void peer_deinit(struct peer *peer);

/* Whether its process runs still: a child may go on with its socket. */
bool peer_lives(const struct peer *peer);

/* It failed because gpumemd lacks something, which is no fault of the peer's. */
bool peer_is_for_shortage(int r);

/* Why peer_init failed, and what helps. */
const char *peer_fault(int r);
