/* Blocks whose leases were revoked while the process mapped them, and that it maps still: when the daemon
 * has one to give again it says KNOWN, and the old mapping is in use again, without a fd and without a
 * call of the driver.
 *
 * What is kept is others' memory, or nobody's: nothing here touches it. It is charged to this process
 * only after the daemon has let go of the block (lingering); NOTICE says so, and all that is kept is
 * unmapped then. Bounds, in each pool: KEPT_BLOCKS_MAX blocks, 1/KEPT_PART of the pool's bytes, KEPT_US
 * since the revocation was seen; what is beyond is unmapped, oldest first. Only what the service thread
 * can unmap is kept, and only for the connection that it was leased on.
 *
 * Pinned memory that is registered, and device memory that was opened, is not unmapped behind the
 * application's back, since unregistering and closing wait for every running kernel: it is kept without those bounds, NOTICE or not, until gpumem_flush, the
 * client's end, or an allocation that would be refused otherwise.
 *
 * Threads: the caller has the pool's lock; driver calls and messages are the caller's, without it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"

#define KEPT_BLOCKS_MAX 64
#define KEPT_PART       2
#define KEPT_US         UINT64_C(1000000)

void kept_init(struct kept *kept);

/* What was just taken off the shelf as revoked. False: it is to be unmapped. */
bool kept_add(struct pool *pool, struct leased *leased, uint64_t now_us);

/* Moves to the list what is to be unmapped: what is out of bounds; what may be unmapped at all behind the
 * application's back; everything. */
enum kept_drop { KEPT_DROP_EXCESS, KEPT_DROP_FREELY, KEPT_DROP_ALL };
void kept_take_out(struct pool *pool, enum kept_drop which, uint64_t now_us,
                   struct leased_list *list);

/* Takes off the shelf what was revoked, and keeps it, or takes it for leased_free_all; with it what was kept
 * and is not to be any more. The caller has the lock. */
void kept_take_revoked(struct pool *pool, enum kept_drop drop, struct leased_list *list);

/* When kept_take_out has something to do next, if nothing happens; UINT64_MAX: never. */
uint64_t kept_next_us(const struct pool *pool);

bool kept_has_any(const struct pool *pool);

/* Finds kept blocks that hold n_bytes together with the heap's holes that they touch: what stands there
 * is to be asked for, part by part. False: there are none, or they are larger than is good. */
bool kept_plan(const struct pool *pool, struct space_heap *heap, uint64_t n_bytes,
               struct placement *ret_placement);

/* The block of that number, which was leased on that connection, is in use again. NULL: it is not kept
 * any more. */
struct leased *kept_take(struct pool *pool, uint64_t number, uint64_t connection);
