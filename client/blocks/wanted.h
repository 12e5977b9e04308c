/* A block as the daemon is asked for it: LEASE and its answer. Any thread; no lock is held. */
#pragma once

#include <stdint.h>

#include "client/blocks/pool_state.h"

struct wanted {
        uint64_t n_bytes;
        uint64_t n_least_bytes;
        uint64_t n_most_bytes;
        uint32_t properties;
        uint32_t wait_ms;
};

/* Has such a block leased, on the connection that there is; its fd is the caller's. A daemon that is lost
 * before it has answered is asked once more when it is back, as far as there is time left. *ret_n_bytes: as large as the
 * block is; the caller gives up the addresses beyond it. */
int wanted_ask(struct pool *pool, const struct wanted *wanted, struct leased *leased,
               uint64_t *ret_n_bytes, int *ret_fd);
