/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that the driver did not take back: they are kept, and their release is retried at intervals
 * (daemon/policy/driver_state.h). When a lost device is back, all are retried at once. They count as
 * lingering, also those that the policy does not know as blocks. On the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"

/* Keeps the block of a job, to retry its release. The job's owner is the policy's block, if that still
 * exists. False: not kept, since the daemon ends. */
bool release_retry_keep(struct server *server, uint32_t pool, struct job *job);

/* A block that may have been kept was released. */
void release_retry_forget(struct server *server, uint32_t pool, const struct job *job);

/* Retries the releases that are due, or all of them: in steps. */
void release_retry_try(struct server *server, uint32_t pool);
void release_retry_try_all(struct server *server, uint32_t pool);

/* The server stops: all are tried once more, now. */
void release_retry_stop(struct server *server, uint32_t pool);
