/* A client's pools, matched with those of the daemon that it is connected to: devices by UUID,
 * pinned memory by NUMA node, since the next daemon may number them otherwise, have fewer, or more.
 *
 * Blocks that were leased from an earlier daemon are held: they are the client's as before, never
 * returned, and declared to the present daemon as long as they are mapped. A pool that the present
 * daemon does not have is absent: what it holds is served on, and nothing is added. Any thread; only
 * one at a time leaves and meets. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/connection.h"
#include "client/uplink.h"
#include "driver/cuda.h"
#include "proto/board.h"

struct pool;

/* A pool's standing with the daemon; guarded by the pool's lock. */
struct binding {
        uint64_t connection;     /* serial of the one that it was met on; 0: it is being left */
        _Atomic bool absent;     /* read without the lock too */
        uint64_t n_leased_bytes; /* of that connection: mapped, or about to be */
        uint64_t n_held_bytes;   /* of earlier ones: mapped */
};

struct pool_set {
        struct pool *pools; /* room for PROTO_POOLS_MAX; those that were seen stay */
        _Atomic uint32_t *n_pools;
        const struct cuda *cuda; /* NULL: no driver */
        struct uplink *uplink;
        struct service *service;
        struct streams *streams;
        double fraction;        /* of each device's memory: the client's own limit at first */
        uint64_t n_cache_bytes; /* of empty blocks, a pool, at most */
};

/* No lease counts as one any more; the bytes that are still mapped. */
uint64_t bind_leave(const struct pool_set *set);

/* Matches the pools with the connection's; -E2BIG when too many were seen over time. */
int bind_meet(const struct pool_set *set, const struct connection *connection);

/* Tells the daemon what is held in each pool. */
void bind_declare(const struct pool_set *set);

/* The pool's number on this connection. GPUMEM_E_NO_POOL; GPUMEM_E_DISCONNECTED when the pool has
 * been left since. */
int bind_find(struct pool *pool, uint64_t connection, uint32_t *ret_id);

/* A block was leased on this connection. GPUMEM_E_DISCONNECTED as above: it must not be used, as
 * nobody accounts for it. */
int bind_lease(struct pool *pool, uint64_t connection, uint64_t n_bytes);

/* A block that was leased on this connection is not mapped any more. Returns whether the lease is to
 * be returned; if not, the daemon has been told that less is held. */
bool bind_unmapped(struct pool *pool, uint64_t connection, uint64_t n_bytes);
