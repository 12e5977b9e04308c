/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that the driver did not take back: kept, and released again at intervals (daemon/policy/driver_state.h), all
 * of it at once when a lost device is back. It lingers, also what is no block of the policy's. On the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core/server_state.h"

/* Keeps what a job has left behind, to be tried again as a release; its job's owner is the policy's block, if that is
 * there still. False: it is not kept, for a daemon that ends. */
bool release_retry_keep(struct server *server, uint32_t pool, struct job *job);

/* What was kept, perhaps, has been released. */
void release_retry_forget(struct server *server, uint32_t pool, const struct job *job);

/* Tries what is due; all that there is. */
void release_retry_try(struct server *server, uint32_t pool);
void release_retry_try_all(struct server *server, uint32_t pool);
