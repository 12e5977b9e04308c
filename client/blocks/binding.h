/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's binding to the daemon that the client is connected to: the pool's number there, and how much is leased
 * from that daemon.
 *
 * Blocks that were leased from an earlier daemon are held: the client still owns them and never returns them. It
 * declares them to the present daemon as long as they are mapped. Any thread, without the pool's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"

/* The pool's number on this connection. GPUMEM_E_NO_POOL; GPUMEM_E_DISCONNECTED: the pool was detached meanwhile. */
int binding_find(struct pool *pool, uint64_t connection, uint32_t *ret_id);

/* A block was leased on this connection. GPUMEM_E_DISCONNECTED as above: the block must not be used, since no daemon
 * charges it. */
int binding_lease(struct pool *pool, uint64_t connection, uint64_t n_bytes);

/* A block that was leased on this connection was unmapped. Returns whether its lease must be returned; if not, the
 * daemon has been told that less is held. */
bool binding_unmapped(struct pool *pool, uint64_t connection, uint64_t n_bytes);

/* Tells the daemon how much is held in the pool. The daemon waits for that before it ends what the last connection
 * was charged, so 0 bytes are told, too. */
void binding_declare(struct pool *pool);
