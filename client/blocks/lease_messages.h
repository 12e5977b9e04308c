/* SPDX-License-Identifier: Apache-2.0 */
/* The messages about leases: LEASE for a new block, LEASE for a block that is still mapped, and those that end a
 * lease. Any thread; no lock is held. */
#pragma once

#include <stdint.h>

#include "client/blocks/pool_state.h"

struct lease_request {
        uint64_t n_bytes;
        uint64_t n_least_bytes;
        uint64_t n_most_bytes;
        uint32_t properties;
        uint32_t wait_ms;
        uint32_t flags; /* PROTO_LEASE_ONLY_CACHED, or none */
};

/* Leases a block on the present connection; the caller owns its fd. If the daemon is lost before it has answered, the
 * request is repeated once to the next one, in the time that is left. *ret_n_bytes: the block's size; the caller
 * gives up addresses beyond it. GPUMEM_E_UNSUPPORTED: the daemon is too old for the flags. */
int lease_messages_request(struct pool *pool, const struct lease_request *request,
                           struct leased *leased, uint64_t *ret_n_bytes, int *ret_fd);

/* The same for blocks of exactly the sizes of the records, all of them or none; n is at most LINK_TOGETHER_MAX.
 * GPUMEM_E_UNSUPPORTED: the daemon is too old for that. */
int lease_messages_request_together(struct pool *pool, struct leased *const *leased, unsigned n,
                                    uint32_t wait_ms, int *ret_fds);

/* Leases again a block of n_bytes that is still mapped: without an fd and without a driver call. GPUMEM_E_REFUSED:
 * the daemon has none to give, or has gone. GPUMEM_E_DISCONNECTED: it is silent, or there is none. */
int lease_messages_renew(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased);

/* A block was unmapped: ends its lease by the message that fits, unless the daemon that it was leased from is gone,
 * and the lease with it. */
void lease_messages_end(struct pool *pool, const struct leased *leased);
