/* SPDX-License-Identifier: Apache-2.0 */
/* Which NUMA node a request for pinned memory is served from when it names none. Any thread. */
#pragma once

#include <stdint.h>

struct cuda;
struct pool;

/* The pinned pool on the node of the current context's device. Without a context, or if the driver does not know the
 * node: on the node of the calling thread's CPU. If that node has none, any other pinned pool; NULL: the daemon has
 * none. `cuda` may be NULL. */
struct pool *nearest_node_pool(struct pool *pools, uint32_t n_pools, const struct cuda *cuda);
