/* Who is handed memory of the driver: those who may open the GPU's files themselves, /dev/nvidiactl and
 * /dev/nvidiaN. A block's fd would be a way around them. On the loop.
 *
 * Their owner, group and mode decide, and the user and groups that the peer had when it connected. What these
 * do not tell, as a device cgroup, is left to the driver: without its files nobody maps a block. */
#pragma once

#include <stdbool.h>

#include "daemon/server/session/session.h"

/* Which file is a device's. Before anybody is served. */
void gpu_file_access_find(struct server_pool *pool);

/* Sends the refusal, if the peer may not be handed blocks of the pool. */
bool gpu_file_access_refuse(struct session *session, uint32_t serial, uint32_t pool);
