/* Which of the pinned pools is next to a thread. Any thread. */
#pragma once

#include "client/blocks/pool_state.h"

/* The pinned pool that the daemon has on the node of the current context's device; without a context, or where the driver
 * does not know, of the CPU that runs the thread. Any other pinned pool when that node has none; NULL:
 * it has no pinned pool. `cuda` may be NULL. */
struct pool *nearest_pinned(struct pool *pools, uint32_t n_pools, const struct cuda *cuda);
