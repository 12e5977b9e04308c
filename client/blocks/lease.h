/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks between the daemon and the arena: addresses reserved, leased, mapped; unmapped, returned. Any thread; the
 * pool's lock is not held during driver calls and messages. */
#pragma once

#include "base/err.h"
#include "client/blocks/pool_state.h"

/* A record with addresses of its own: there, or anywhere with `start` 0. The caller has the lock. */
int leased_reserve(struct pool *pool, uint64_t start, uint64_t n_bytes, struct leased **ret_leased);

/* Leases a block of n_bytes, or as much larger as there are addresses for, or one of n_least_bytes and more that others
 * do not need, and maps it there; the addresses that it does not need are given up. On failure all of it is. */
int leased_obtain(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                  uint64_t n_least_bytes, uint32_t wait_ms);

/* The same for n blocks, of just as many bytes as there are addresses for: all of them, or none. */
int leased_obtain_together(struct pool *pool, struct leased *const *leased, unsigned n,
                           uint32_t wait_ms);

/* The same for a block that may be shared: a new one, of exactly n_bytes. */
int leased_obtain_shareable(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                            uint32_t wait_ms);

/* Gives up addresses where nothing is mapped. */
void leased_cancel(struct pool *pool, struct leased *leased);

/* Maps the block of an ATTACH's answer on this connection. The fd is consumed. On failure the lease is still the
 * caller's to give back, unless the driver would not take everything away again: then it is stuck, and *ret_is_stuck is
 * set. */
int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, bool *ret_is_stuck, struct leased **ret_leased);

/* The connection is over by which blocks were leased, and its board will be gone: leases on the idle list, and in
 * heaps, have no words any more. The caller has the lock. */
void lease_lose_words(struct pool *pool);

/* What there is to say about the block; the caller has the lock. The allocation is left alone. */
void leased_describe(const struct pool *pool, const struct leased *leased,
                     struct gpumem_info *info);

/* Unmaps it and gives it back. A mapping that the driver does not take away keeps its lease: a block that is still
 * reachable must not be anybody else's. It is stuck, and is tried again when another block has been unmapped. */
void leased_free(struct pool *pool, struct leased *leased);

/* Each of the list. */
void leased_free_all(struct pool *pool, struct leased_list *list);

/* All that is stuck is tried once more. */
void leased_free_stuck(struct pool *pool);

/* Makes the block known to the driver, unless it is already: the application holds an allocation in it, or has attached
 * it. Needs a current context. GPUMEM_E_BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER, or a fault of the driver,
 * which leaves nothing registered. */
int leased_register(struct pool *pool, struct leased *leased);

/* As peer_access_allow: of blocks that are mapped, and of those that will be. */
int leased_allow_peer(struct pool *pool, int ordinal);
