/* SPDX-License-Identifier: Apache-2.0 */
/* A block: one driver allocation or memfd, from the action to make it until its last byte is back.
 *
 * Owned by its holding (it keeps the tenant alive); the server names it by pointer in between.
 * Leases that may still map it stand in its list, the holder that had it last first: see charge_owner.h
 * for which of them is charged. Every change of state goes through one setter, which keeps the totals of pool and holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* A block in CREATING, charged to the request's client, with its action given. -ENOMEM. */
int block_create(struct request *request, struct block **ret_block);

/* Before the worker has made it, or when it could not: the block was never there. */
struct block *block_uncreate(struct block *block);

/* To be made for the cache, and unowned. -ENOMEM. */
int block_prewarm(struct holding *holding, uint64_t n_bytes);

/* One that is unowned becomes another tenant's, cached as it is. -ENOMEM. */
int block_change_holding(struct block *block, struct holding *holding);

/* The request is withdrawn while the worker makes the block: it is made for the tenant's cache. */
void block_create_for_cache(struct block *block);

/* It becomes `lease`'s, out of CREATING or CACHED. */
void block_lease(struct block *block, struct lease *lease);

/* It becomes `lease`'s too; in LEASED. */
void block_attach(struct block *block, struct lease *lease);

/* A lease on it is not busy any more; it still stands in the block's list. */
void block_end_use(struct block *block);

/* A busy lease has ended and others go on: the oldest of them is charged. */
void block_transfer_charge(struct block *block);

/* Nobody leases it any more, or it was made for nobody: it is cached if it may be. */
void block_return_to_cache(struct block *block);

/* Its bytes go back to the driver; from LEASED, CREATING_FOR_CACHE (once made) or CACHED. */
void block_release(struct block *block);

/* The worker could not release it, and tries again: its bytes are no longer as good as back. */
void block_set_unreleasable(struct block *block);

/* The worker has released it. Frees it if nobody maps it. */
void block_released(struct block *block);

/* A lease that ends stood for a mapping. Frees the block if it lingered for that one only. */
void block_unmapped(struct block *block, struct lease *lease);

/* It was released, is mapped, and nobody counts on it any more; see unmap_timeout.h. */
void block_set_unmap_timed_out(struct block *block);

/* In LEASED, to one client whose word may say that the lease is idle. */
bool block_may_be_idle(const struct block *block);

bool block_is_mapped(const struct block *block);

/* Some client maps it, and will not unmap it when asked to. */
bool block_is_kept(const struct block *block);

/* For a policy that ends: its pool goes with it, and no total is kept. */
struct block *block_discard(struct block *block);

/* Adds what the block counts as in its present state. */
void block_count(const struct block *block, struct totals *totals);
