/* SPDX-License-Identifier: Apache-2.0 */
/* Retained mappings: blocks whose leases were revoked while the process mapped them, and that it still maps. If the
 * daemon has such a block to give again, it answers KNOWN. The old mapping is then used again, without an fd and
 * without a driver call.
 *
 * A retained block belongs to others, or is free: nothing here touches its memory. The process is charged for it only
 * after the daemon has released the block (lingering). Then the daemon sends a NOTICE, and all retained blocks are
 * unmapped. Limits for each pool: RETAINED_BLOCKS_MAX blocks, 1/RETAINED_PART of the pool's bytes, RETAINED_US since
 * the revocation was seen. Blocks beyond them are unmapped, oldest first. Only blocks that the service thread can
 * unmap are retained, and only while the connection lasts on which they were leased.
 *
 * Registered pinned memory, and device memory that was opened, is not unmapped behind the application's back, since
 * unregistering and closing wait for every running kernel. It is retained without these limits, NOTICE or not, until
 * gpumem_flush, the client's end, or an allocation that would be refused otherwise.
 *
 * Threads: the caller has the pool's lock, and makes driver calls and sends messages without it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"

#define RETAINED_BLOCKS_MAX 64
#define RETAINED_PART       2
#define RETAINED_US         UINT64_C(1000000)

void retained_init(struct retained *retained);

/* Retains a block that was just taken off the idle list as revoked. False: it must be unmapped. */
bool retained_add(struct pool *pool, struct leased *leased, uint64_t now_us);

/* Moves blocks to the list to be unmapped: those beyond the limits; all that may be unmapped behind the application's
 * back; all. */
enum retained_drop { RETAINED_DROP_EXCESS, RETAINED_DROP_FREELY, RETAINED_DROP_ALL };
void retained_take_out(struct pool *pool, enum retained_drop which, uint64_t now_us,
                       struct leased_list *list);

/* Takes revoked blocks off the idle list, and retains them or moves them to the list for leased_free_all. Also moves
 * retained blocks there that `drop` says. The caller has the lock. */
void retained_take_revoked(struct pool *pool, enum retained_drop drop, struct leased_list *list);

/* Takes opened blocks whose contexts have ended, for leased_free_all. */
void retained_take_ended(struct pool *pool, struct leased_list *list);

/* When retained_take_out is due next, if nothing else happens; UINT64_MAX: never. */
uint64_t retained_next_us(const struct pool *pool);

bool retained_has_any(const struct pool *pool);

/* Finds retained blocks that hold n_bytes, together with the heap's holes that they touch; the caller leases them
 * again, part by part. False: there are none, or they are much larger than needed. */
bool retained_plan(const struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                   struct new_blocks *ret_new_blocks);

/* Takes out the block with that number that was leased on that connection: it is used again. NULL: it is not retained
 * any more. */
struct leased *retained_take(struct pool *pool, uint64_t number, uint64_t connection);
