/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool has of the daemon that the client is connected to: its number there, and how much is leased from it.
 *
 * Blocks that were leased from an earlier daemon are held: they are the client's as before, never returned, and
 * declared to the present daemon as long as they are mapped. Any thread, without the pool's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"

/* The pool's number on this connection. GPUMEM_E_NO_POOL; GPUMEM_E_DISCONNECTED when the pool has
 * been detached since. */
int binding_find(struct pool *pool, uint64_t connection, uint32_t *ret_id);

/* A block was leased on this connection. GPUMEM_E_DISCONNECTED as above: it must not be used, as
 * nobody accounts for it. */
int binding_lease(struct pool *pool, uint64_t connection, uint64_t n_bytes);

/* A block that was leased on this connection is not mapped any more. Returns whether the lease is to
 * be returned; if not, the daemon has been told that less is held. */
bool binding_unmapped(struct pool *pool, uint64_t connection, uint64_t n_bytes);

/* Tells the daemon how much is held in the pool. It waits for that before it ends what the last connection was
 * charged, so 0 bytes are told, too. */
void binding_declare(struct pool *pool);
