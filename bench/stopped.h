/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the same tenant that holds idle blocks and is stopped by SIGSTOP. It maps its leases and
 * marks them as the library does. Start it before the caller has threads or has used the driver. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define STOPPED_BLOCKS_MAX 64

struct options;

struct stopped {
        pid_t pid; /* 0: none */
        int fd;
};

#define STOPPED_NULL ((struct stopped){.pid = 0, .fd = -1})

int stopped_init(const struct options *options, struct stopped *ret_stopped);
void stopped_deinit(struct stopped *stopped);

/* Has the process hold that many idle blocks of that size, and stops it. */
int stopped_hold(struct stopped *stopped, uint32_t n_blocks, uint64_t n_bytes);

/* Continues the process; returns when it has unmapped all blocks. -ENOTRECOVERABLE: some blocks were not
 * revoked. */
int stopped_let_go(struct stopped *stopped);
