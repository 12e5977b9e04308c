/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of this machine: one for each device, and one of pinned memory for each NUMA node. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Adds all pools. */
struct server_options;
int pools_make(struct server *server, const struct server_options *options);
void pools_free(struct server *server);

/* The daemon ends: workers abort long operations. */
void pools_cancel(struct server *server);

/* Call it before a client's lease, or its mapping of an ended lease, ends: a block with missing pages is
 * not reused. */
void pools_check_integrity(struct server *server, struct client *client, uint64_t lease_id);

/* Sets the limit of a pool that there is. The rows for clients are made after all such changes. */
void pools_set_max(struct server *server, uint32_t pool, uint64_t max_bytes);

/* Makes the rows for clients again if a limit was set since that was last done. On an error clients have those of before,
 * and the next call tries it again. */
int pools_publish_changes(struct server *server);

/* Sets the bytes that each tenant keeps in the pool. */
void pools_set_min(struct server *server, uint32_t pool, uint64_t min_bytes);

/* Warns if these are at least the pool's maximum. */
void pools_check_min(const struct server *server, uint32_t pool);

/* Calls pools_set_min and pools_check_min for every pool. */
void pools_set_mins(struct server *server, const struct settings *settings);
