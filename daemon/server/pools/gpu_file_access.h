/* SPDX-License-Identifier: Apache-2.0 */
/* Only peers that may open the GPU's files themselves, /dev/nvidiactl and /dev/nvidiaN, get the driver's
 * memory. A block's fd would be a way around the files' permissions. On the loop.
 *
 * The files' owner, group and mode decide, with the user and groups that the peer had when it connected. A peer in
 * more than 4,096 groups may only open files that do not depend on them.
 * Restrictions that these do not show, such as a device cgroup, are left to the driver: a process that
 * cannot open the files cannot map a block. */
#pragma once

#include <stdbool.h>

#include "daemon/server/session/session.h"

/* Finds the device's file. Call it before any client is served. */
void gpu_file_access_find(struct server_pool *pool);

/* Returns whether the peer may not have blocks of the pool. If so, the refusal has been sent. */
bool gpu_file_access_refuse(struct session *session, uint32_t serial, uint32_t pool);
