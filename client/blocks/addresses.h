/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a pool: one range for its arena, and further ones if the system had few at first. Any thread. */
#pragma once

#include "client/blocks/pool_state.h"

/* Makes the pool's arena, unless it has one. If the system has few addresses then, the arena is short, and
 * addresses_widen extends it when a later allocation finds no place. If there are none, the allocation fails, and the
 * next one tries again. The caller has the lock. */
int addresses_open(struct pool *pool);

/* A request of n_bytes found no place in the arena. True: there are more addresses now, for the request at least and
 * up to what a pool has; existing ranges stay, since blocks stand there. False: no more are available, or the pool
 * has all that it may have. The caller has the lock. */
bool addresses_widen(struct pool *pool, uint64_t n_bytes);

/* Releases all addresses; no block stands there any more. A range with a stuck block (leased_free) stays the process's. */
void addresses_close(struct pool *pool);
