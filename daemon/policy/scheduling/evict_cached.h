/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction: gives cached blocks back to the driver, to make room for a request that no block serves.
 *
 * Cached blocks that no client maps go first, since only their memory comes back with the release: first
 * the asking tenant's, then those of others: of the owner (owner.h) that has most cached, of its tenant that has most,
 * the oldest first, until another one has most. So one that uses much does not take the few blocks that another one
 * needs again and again. Other blocks must be unmapped by clients:
 * first those of the asking client's idle leases, then of its tenant's, then cached ones in the order
 * above, and last those of other tenants' idle leases.
 *
 * In a part of a walk only so many blocks go back as the part has left (state/walk_part.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"
#include "daemon/policy/state/types.h"

struct scan_budget;

/* Releases blocks until `n_bytes` are on their way back, or no block is left: blocks that no client maps,
 * blocks that a client maps, or blocks whose clients will not unmap them when asked. The last kind makes no
 * room. Returns the bytes on their way. */
uint64_t evict_cached(struct holding *asker, uint64_t n_bytes, enum evict_kind kind);

/* The same for blocks of the holding only: evict_cached begins with these. */
uint64_t evict_cached_own(struct holding *holding, uint64_t n_bytes, enum evict_kind kind);

/* For a request that waits, and that all unmapped blocks would not serve. If the mapped ones would, enough
 * of them are released: they linger, charged to the clients that map them, until they are unmapped.
 * EVICT_SOME: releases some even if they are not enough, since the driver's shortage is unknown. */
enum evict_amount { EVICT_ENOUGH, EVICT_SOME };
void evict_cached_recall(struct pool *pool, const struct client *asker, uint64_t n_missing_bytes,
                         enum evict_amount amount, uint64_t now_ns, struct scan_budget *budget);

/* How much of a pool of device memory may be cached or idle beside a new block: a part of the peak of
 * reserved bytes, or a few blocks, or one block of 2 MiB for each owner that has any, or the pool's keep_bytes (aging.h).
 * Where all blocks are that small, some owner has two beyond that, and loses one first. */
#define EVICT_SPARE_PART     512
#define EVICT_SPARE_BYTES    (64 * MIB)
#define EVICT_SPARE_AN_OWNER (2 * MIB)

/* Leases scanned for that; and for a large block as many more as there are of the smallest ones in it, since blocks that are
 * as small may have to go for it. So many in a part of a walk: it goes on in the next while blocks go. */
#define EVICT_SCANS_A_BLOCK 512
#define EVICT_SCANS_A_PART  256
#define EVICT_BYTES_A_SCAN  (2 * MIB)

/* Clients that are asked to mark what they do not use, before a block raises the peak: those that hold most. */
#define EVICT_MARKS_A_BLOCK 8

/* A new block is about to be created for a request that no cached or idle block served. Releases as many
 * bytes of these as are created, beyond the spare part above: first the asking client's idle leases, then
 * as evict_cached_recall does. No request waits for this, so no limit may be exceeded by it: neither a
 * limit of clients that are charged for mapped blocks, nor one for the new block. Pinned memory is
 * expensive to create and stays. Returns the bytes that are certain to come back, and takes those that are released off
 * *n_new_bytes. */
uint64_t evict_cached_surplus(struct pool *pool, const struct client *asker, uint64_t *n_new_bytes,
                              uint64_t now_ns, struct scan_budget *budget);

/* The pool's limit may be lower now: cached blocks beyond it are to go back, then those of idle leases. */
void evict_cached_begin_to_limit(struct pool *pool);

/* The next part of that: unmapped blocks go first, then mapped and kept ones. Each search meets a block once, although
 * clients unmap some meanwhile. If some are left then, all begin again. No walk through a queue may go on between two
 * parts: their searches would lose their places. Returns whether more is left. */
bool evict_cached_to_limit(struct pool *pool);
