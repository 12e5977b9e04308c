/* SPDX-License-Identifier: Apache-2.0 */
/* Leased blocks, from the daemon to the arena: reserve addresses, lease, map; then unmap and return. Any thread; the
 * pool's lock is not held during driver calls and messages. */
#pragma once

#include "base/err.h"
#include "client/blocks/pool_state.h"

/* Makes a record with addresses: at `start`, or anywhere if that is 0. The caller has the lock. */
int leased_reserve(struct pool *pool, uint64_t start, uint64_t n_bytes, struct leased **ret_leased);

/* Leases a block of n_bytes and maps it at the record's addresses. The block may be larger, up to these addresses, or
 * a block of at least n_least_bytes that others do not need. Addresses beyond it are given up. After a failure the
 * record and its addresses are. */
int leased_obtain(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                  uint64_t n_least_bytes, uint32_t wait_ms);

/* The same for a block that exists: the daemon makes none. If it has none, GPUMEM_E_REFUSED, and if it is too old to be
 * asked, GPUMEM_E_UNSUPPORTED: then the record stays. */
int leased_obtain_cached(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                         uint64_t n_least_bytes);

/* Gives up the addresses of a record, without a block, beyond n_bytes. */
void leased_trim(struct pool *pool, struct leased *leased, uint64_t n_bytes);

/* The same for n blocks, each exactly as large as its record's addresses: all of them, or none. */
int leased_obtain_together(struct pool *pool, struct leased *const *leased, unsigned n,
                           uint32_t wait_ms);

/* The same for a block with properties (PROTO_PROPERTY_*): a new one of exactly n_bytes. GPUMEM_E_UNSUPPORTED: the
 * daemon is too old for them, or cannot make such a block. */
int leased_obtain_new(struct pool *pool, struct leased *leased, uint64_t n_bytes,
                      uint32_t properties, uint32_t wait_ms);

/* Gives up a record and its addresses, where nothing is mapped. */
void leased_cancel(struct pool *pool, struct leased *leased);

/* Maps the block of ATTACHED, which came on this connection. The fd is consumed. After a failure the caller returns
 * the lease. But if the driver did not take everything away again, the block is stuck, which sets *ret_is_stuck. */
int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, bool *ret_is_stuck, struct leased **ret_leased);

/* The connection is over, and its board will be gone: the leases of blocks in heaps and on the idle list lose their
 * words. The caller has the lock. */
void lease_lose_words(struct pool *pool);

/* Fills in what describes the block, not the allocation; the caller has the lock. */
void leased_describe(const struct pool *pool, const struct leased *leased,
                     struct gpumem_info *info);

/* Maps a block of device memory, whose work is over, at the addresses of the record `to`, which are as many, and gives
 * up its old ones. `to` is its record then. After a failure the lease is returned, and both records are given up. */
int leased_move(struct pool *pool, struct leased *leased, struct leased *to);

/* Unmaps the block and returns its lease. If the driver fails to unmap it, the lease stays: a block that is still
 * reachable must not be given to others. The block is stuck then, and is tried again whenever another block was
 * unmapped. */
void leased_free(struct pool *pool, struct leased *leased);

/* Frees each block of the list. */
void leased_free_all(struct pool *pool, struct leased_list *list);

/* Tries once more to free all stuck blocks. */
void leased_free_stuck(struct pool *pool);

/* Registers the block with the driver, unless it is registered. The application holds an allocation in it, or has
 * attached it. Needs a current context. GPUMEM_E_BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER, or a fault of
 * the driver, which leaves nothing registered. */
int leased_register(struct pool *pool, struct leased *leased);

/* As peer_access_allow, for the pool's mapped and later blocks. */
int leased_allow_peer(struct pool *pool, int ordinal);
