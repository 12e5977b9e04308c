/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the daemon about leases: LEASE for a block that is new here, LEASE for one that is still
 * mapped, and what ends a lease. Any thread; no lock is held. */
#pragma once

#include <stdint.h>

#include "client/blocks/pool_state.h"

struct lease_request {
        uint64_t n_bytes;
        uint64_t n_least_bytes;
        uint64_t n_most_bytes;
        uint32_t properties;
        uint32_t wait_ms;
};

/* Has such a block leased, on the connection that there is; its fd is the caller's. A daemon that is lost
 * before it has answered is asked once more when it is back, as far as there is time left. *ret_n_bytes: as large as
 * the block is; the caller gives up the addresses beyond it. */
int lease_messages_request(struct pool *pool, const struct lease_request *request,
                           struct leased *leased, uint64_t *ret_n_bytes, int *ret_fd);

/* Has blocks of just the sizes that the records have leased, all of them or none, likewise; n is LINK_TOGETHER_MAX at
 * most. GPUMEM_E_UNSUPPORTED: the daemon is older than that. */
int lease_messages_request_together(struct pool *pool, struct leased *const *leased, unsigned n,
                                    uint32_t wait_ms, int *ret_fds);

/* Has a block of n_bytes that is still mapped leased again: without a fd, and without a call of the driver.
 * GPUMEM_E_REFUSED: the daemon has none to give, or has gone; GPUMEM_E_DISCONNECTED: it says nothing, or there is
 * none. */
int lease_messages_renew(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased);

/* A block is not mapped any more: ends its lease by the message that fits it, unless the daemon that it was leased
 * from is gone, and the lease with it. */
void lease_messages_end(struct pool *pool, const struct leased *leased);
