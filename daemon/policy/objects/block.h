/* SPDX-License-Identifier: Apache-2.0 */
/* A block: one driver allocation or memfd, from the action that creates it until its last byte is back.
 *
 * Owned by its holding; a block keeps its tenant alive. The server refers to it by pointer. Leases that may
 * still map it are in its list, the last holder first; charge.h tells which of them is charged. Every
 * change of state goes through one setter, which keeps the totals of pool and holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* A block in CREATING, charged to the request's client, with its CREATE action queued. -ENOMEM. */
int block_create(struct request *request, struct block **ret_block);

/* Undoes block_create: the worker has not begun, or could not create the block. */
struct block *block_uncreate(struct block *block);

/* Creates an unowned block for the cache. -ENOMEM. */
int block_prewarm(struct holding *holding, uint64_t n_bytes);

/* Gives an unowned block, still cached, to another tenant's holding. -ENOMEM. */
int block_change_holding(struct block *block, struct holding *holding);

/* The request is withdrawn while the worker creates the block: it is created for the tenant's cache. */
void block_create_for_cache(struct block *block);

/* Gives a block in CREATING or CACHED to `lease`. */
void block_lease(struct block *block, struct lease *lease);

/* Gives a block in LEASED to one more lease. */
void block_attach(struct block *block, struct lease *lease);

/* One of its leases is not busy any more, but stays in the block's list. */
void block_end_use(struct block *block);

/* Adds the block to what the busy lease's client has attached (1), or removes it (-1). */
void block_count_attached(const struct block *block, const struct lease *lease, int sign);

/* A busy lease has ended and others remain: charges the client of the oldest one. */
void block_transfer_charge(struct block *block);

/* No client leases it any more, or it was created for the cache: caches it, if that is allowed. */
void block_return_to_cache(struct block *block);

/* Gives its bytes back to the driver; from LEASED, CREATING_FOR_CACHE (once created) or CACHED. */
void block_release(struct block *block);

/* The worker could not release it, and tries again: no request may count on its bytes meanwhile. */
void block_set_unreleasable(struct block *block);

/* The worker has released it. Frees it if no client maps it. */
void block_released(struct block *block);

/* A lease that ends stood for a mapping. Frees the block if it only lingered for that mapping. */
void block_unmapped(struct block *block, struct lease *lease);

/* It was released, is still mapped, and its unmap has timed out: no request counts on it any more. See
 * unmap_timeout.h. */
void block_set_unmap_timed_out(struct block *block);

/* It is in LEASED, for one client whose board may call the lease idle. */
bool block_may_be_idle(const struct block *block);

/* Whether its lease's word says so, of a block that may be idle: if not, the lease is not. */
bool block_is_said_idle(const struct block *block);

/* What policy_next_block saw of it; it may be idle. */
void block_set_seen_idle(struct block *block, bool is_idle);

bool block_is_mapped(const struct block *block);

/* A client maps it, and will not unmap it when asked to. */
bool block_is_kept(const struct block *block);

/* The policy ends: frees the block without updating totals. */
struct block *block_discard(struct block *block);

/* Adds the block, in its present state, to the totals. */
void block_count(const struct block *block, struct totals *totals);
