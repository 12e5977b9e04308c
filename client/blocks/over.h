/* What the daemon is told when a block is not mapped any more. Any thread, without the pool's lock. */
#pragma once

#include "client/blocks/pool_state.h"

/* By a message that fits the lease, unless the daemon is gone that it was leased from, and the lease
 * with it. */
void over_say(struct pool *pool, const struct leased *leased);

/* What counts as leased while it is mapped: what was attached is accounted for by those who leased it. */
uint64_t over_bytes(const struct leased *leased);
