/* Making room: which blocks are let go when a request finds none that serves it.
 *
 * Cached blocks that nobody maps go first, since only these come back by being let go: the asking
 * tenant's own, then those of others; in each, the one that was cached first. Others must be unmapped
 * by clients: those of idle leases of the asking client, then of its tenant, cached ones in the order
 * above, and those of other tenants' idle leases last. */
#pragma once

#include <stdint.h>

#include "base/size.h"
#include "daemon/policy/state/types.h"

struct looks;

/* Lets go of blocks until `n_bytes` are on their way back, or none is left: of those that nobody
 * maps, of those that somebody does, or of those that somebody maps who will not unmap them when asked.
 * For room nothing is let go of the last. Returns what is on its way. */
enum room_kind { ROOM_UNMAPPED, ROOM_MAPPED, ROOM_KEPT };
uint64_t room_evict(struct holding *asker, uint64_t n_bytes, enum room_kind kind);

/* The same of those of the holding only: room_evict begins with these. */
uint64_t room_evict_own(struct holding *holding, uint64_t n_bytes, enum room_kind kind);

/* For a client's request that waits for others, and that everything unmapped does not serve. If the
 * mapped blocks would, enough of them are let go: they linger on their mappers' charge until
 * unmapped. ROOM_SOME: also if they would not; nobody knows how much the driver lacks. */
enum room_amount { ROOM_ENOUGH, ROOM_SOME };
void room_call_in(struct pool *pool, const struct client *asker, uint64_t n_missing_bytes,
                  enum room_amount amount, uint64_t now_ns, struct looks *looks);

/* So much of a pool of device memory may be cached or idle beside a new block: a part of the peak of
 * what is reserved, or a few blocks, or what the pool is to keep (warm.h). */
#define ROOM_SPARE_PART  512
#define ROOM_SPARE_BYTES (64 * MIB)

/* Looks at leases for that: 20 us, where making the block takes ten times as long. */
#define ROOM_LOOKS_A_BLOCK 512

/* A new block is about to be made for the client's request, which nothing served that is cached or idle.
 * What there is of that beyond the above is let go, as much as is made: the idle leases of the asking
 * client first, then as in room_call_in. Nobody waits for it, so no limit is passed for it: not by those
 * who are charged for what they still map, nor then by the new block. Pinned memory is dear to make, and
 * stays.
 * Returns how much of it comes back for certain. */
uint64_t room_thin_out(struct pool *pool, const struct client *asker, uint64_t n_new_bytes,
                       uint64_t now_ns, struct looks *looks);

/* The pool's limit was lowered: lets go of what is cached beyond it, and of what is idle. */
void room_trim(struct pool *pool);
