/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory of a pool a client could still get. Any thread. */
#pragma once

#include "client/api/client.h"

/* Asks the daemon. The bytes are: unused memory of the client's own blocks, what the daemon caches, and what it may
 * still take from the driver; within the client's own limit. Errors: those of reconnect_call and rows_read;
 * GPUMEM_E_NO_POOL. */
int available_ask(struct gpumem_client *client, struct pool *pool, const struct gpumem_stats *stats,
                  uint64_t *ret_n_bytes);
