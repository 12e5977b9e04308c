/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a connection, as the kernel knows it; never what it claims.
 *
 * The process is the one that called connect, whoever has the socket now. From Linux 6.5 on the kernel
 * hands out a pidfd of it (SO_PEERPIDFD). Before, one is opened by its pid, which may have been
 * used again meanwhile: it must be the same process before and after, and the connection must stand. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/identity/cgroup.h"

struct peer {
        pid_t pid; /* for people, who may find somebody else there later; 0: of a pid namespace that
                    * the daemon's does not see */
        uid_t uid;
        int pidfd;                       /* readable when the process has ended */
        int container_fault;             /* why `container` is unknown: a negative errno; or 0 */
        char container[CGROUP_PATH_MAX]; /* that it ran in when it was taken in; "": in none */
        uint64_t
                network; /* the namespace in which it made its socket has this number, for ever; 0: unknown */
        uint64_t process; /* no other process has this number while the pidfd is open; 0: unknown */
};

#define PEER_NULL ((struct peer){.pid = 0, .pidfd = -1})

/* The process that connected. A container that cannot be read is no failure. -ESRCH when it is gone already; -EREMOTE when it cannot be known by its
 * pid, nor in another way; and what pidfd_open and reading of /proc come to. */
int peer_init(struct peer *peer, int socket);
void peer_deinit(struct peer *peer);

/* Which container the process with this pid runs in now. -EXDEV where /proc tells of other pids, and what
 * reading it and cgroup_find_container come to. */
int peer_find_container(pid_t pid, char ret_path[static CGROUP_PATH_MAX]);

/* Why peer_init failed, and what would help. */
const char *peer_fault(int r);
