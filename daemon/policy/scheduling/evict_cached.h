/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction: gives cached blocks back to the driver, to make room when a request finds none that serves it.
 *
 * Cached blocks that nobody maps go first, since only these come back by being released: the asking
 * tenant's own, then those of others; in each, the one that was cached first. Others must be unmapped
 * by clients: those of idle leases of the asking client, then of its tenant, cached ones in the order
 * above, and those of other tenants' idle leases last. */
#pragma once

#include <stdint.h>

#include "base/size.h"
#include "daemon/policy/state/types.h"

struct scan_budget;

/* Releases blocks until `n_bytes` are on their way back, or none is left: of those that nobody
 * maps, of those that somebody does, or of those that somebody maps who will not unmap them when asked.
 * To make room none of the last kind is released. Returns what is on its way. */
enum evict_kind { EVICT_UNMAPPED, EVICT_MAPPED, EVICT_KEPT };
uint64_t evict_cached(struct holding *asker, uint64_t n_bytes, enum evict_kind kind);

/* The same of those of the holding only: evict_cached begins with these. */
uint64_t evict_cached_own(struct holding *holding, uint64_t n_bytes, enum evict_kind kind);

/* For a client's request that waits for others, and that everything unmapped does not serve. If the
 * mapped blocks would, enough of them are released: they linger on their mappers' charge until
 * unmapped. EVICT_SOME: also if they would not; nobody knows how much the driver lacks. */
enum evict_amount { EVICT_ENOUGH, EVICT_SOME };
void evict_cached_recall(struct pool *pool, const struct client *asker, uint64_t n_missing_bytes,
                         enum evict_amount amount, uint64_t now_ns, struct scan_budget *budget);

/* So much of a pool of device memory may be cached or idle beside a new block: a part of the peak of
 * what is reserved, or a few blocks, or what the pool is to keep (prewarm.h). */
#define EVICT_SPARE_PART  512
#define EVICT_SPARE_BYTES (64 * MIB)

/* Scans of leases for that: 20 us, where making the block takes ten times as long. */
#define EVICT_SCANS_A_BLOCK 512

/* A new block is about to be made for the client's request, which nothing served that is cached or idle.
 * What there is of that beyond the above is released, as much as is made: the idle leases of the asking
 * client first, then as in evict_cached_recall. Nobody waits for it, so no limit is passed for it: not by those
 * who are charged for what they still map, nor then by the new block. Pinned memory is dear to make, and
 * stays.
 * Returns how much of it comes back for certain. */
uint64_t evict_cached_surplus(struct pool *pool, const struct client *asker, uint64_t n_new_bytes,
                              uint64_t now_ns, struct scan_budget *budget);

/* The pool's limit was lowered: releases what is cached beyond it, and what is idle. */
void evict_cached_to_limit(struct pool *pool);
