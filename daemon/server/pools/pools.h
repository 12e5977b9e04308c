/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of this machine: one a device, one of pinned memory a NUMA node. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Adds all of them. */
struct server_options;
int pools_make(struct server *server, const struct server_options *options);
void pools_free(struct server *server);

/* The daemon ends: what workers do for long, they give up. */
void pools_cancel(struct server *server);

/* Before a client's lease, or what it still maps of it, ends: a block that is not whole any more will
 * not be served again. */
void pools_check_integrity(struct server *server, struct client *client, uint64_t lease_id);

/* The limit holds also when the rows that clients are told of could not be made again: the result says so. */
int pools_set_max(struct server *server, uint32_t pool, uint64_t max_bytes);

/* What each tenant keeps there. */
void pools_set_min(struct server *server, uint32_t pool, uint64_t min_bytes);

/* A warning if that is all that the pool may hold, or more. */
void pools_check_min(const struct server *server, uint32_t pool);

/* Both, for every pool. */
void pools_set_mins(struct server *server, const struct settings *settings);
