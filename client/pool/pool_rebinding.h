/* SPDX-License-Identifier: Apache-2.0 */
/* Matches a client's pools with those of the daemon that it is connected to: devices by UUID, pinned memory by NUMA
 * node. The next daemon may number them differently, have fewer, or more.
 *
 * A pool that the present daemon does not have is missing: its memory is still served, and no blocks are added. Any
 * thread, but only one at a time may detach and attach. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"
#include "client/connection/connection.h"
#include "driver/cuda.h"

struct pool_set {
        struct pool *pools; /* room for PROTO_POOLS_MAX; pools are never removed */
        _Atomic uint32_t *n_pools;
        const struct cuda *cuda; /* NULL: no driver */
        struct reconnector *reconnector;
        struct service_thread *service;
        struct streams *streams;
        double fraction;        /* of each device's memory: the client's initial own limit */
        uint64_t n_limit_bytes; /* the same in bytes, if that is less */
        const _Atomic uint64_t
                *n_cache_bytes; /* of empty blocks, a pool, at most; may change at any time */
};

/* Leases of the last connection no longer count as leases. Returns the bytes that are still mapped. */
uint64_t pool_rebinding_detach(const struct pool_set *set);

/* Matches the pools with the connection's; -E2BIG: too many different pools were seen. */
int pool_rebinding_attach(const struct pool_set *set, const struct connection *connection);

/* Tells the daemon what is held in each pool. */
void pool_rebinding_declare(const struct pool_set *set);
