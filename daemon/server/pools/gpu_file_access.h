/* SPDX-License-Identifier: Apache-2.0 */
/* Which peers get memory of the driver: those that may open the GPU's files themselves, /dev/nvidiactl and
 * /dev/nvidiaN. A block's fd would be a way around them. On the loop.
 *
 * Their owner, group and mode decide, and the user and groups that the peer had when it connected. What these
 * do not tell, as a device cgroup, is left to the driver: without its files nobody maps a block. */
#pragma once

#include <stdbool.h>

#include "daemon/server/session/session.h"

/* Finds the device's file. Before any client is served. */
void gpu_file_access_find(struct server_pool *pool);

/* Whether the peer may not have blocks of the pool; then the refusal is sent. */
bool gpu_file_access_refuse(struct session *session, uint32_t serial, uint32_t pool);
