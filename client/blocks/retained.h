/* SPDX-License-Identifier: Apache-2.0 */
/* Retained mappings: blocks whose leases were revoked while the process mapped them, and that it maps still. When the
 * daemon has one to give again it says KNOWN, and the old mapping is in use again, without a fd and without a call of
 * the driver.
 *
 * A retained block is others' memory, or free: nothing here touches it. It is charged to this process only after the
 * daemon has released the block (lingering); NOTICE says so, and all that is retained is unmapped then. Bounds, in each
 * pool: RETAINED_BLOCKS_MAX blocks, 1/RETAINED_PART of the pool's bytes, RETAINED_US since the revocation was seen;
 * what is beyond is unmapped, oldest first. Only what the service thread can unmap is retained, and only for the
 * connection that it was leased on.
 *
 * Pinned memory that is registered, and device memory that was opened, is not unmapped behind the application's back,
 * since unregistering and closing wait for every running kernel: it is retained without those bounds, NOTICE or not,
 * until gpumem_flush, the client's end, or an allocation that would be refused otherwise.
 *
 * Threads: the caller has the pool's lock; driver calls and messages are the caller's, without it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/blocks/pool_state.h"

#define RETAINED_BLOCKS_MAX 64
#define RETAINED_PART       2
#define RETAINED_US         UINT64_C(1000000)

void retained_init(struct retained *retained);

/* What was just taken off the idle list as revoked. False: it is to be unmapped. */
bool retained_add(struct pool *pool, struct leased *leased, uint64_t now_us);

/* Moves to the list what is to be unmapped: what is out of bounds; what may be unmapped at all behind the application's
 * back; everything. */
enum retained_drop { RETAINED_DROP_EXCESS, RETAINED_DROP_FREELY, RETAINED_DROP_ALL };
void retained_take_out(struct pool *pool, enum retained_drop which, uint64_t now_us,
                       struct leased_list *list);

/* Takes off the idle list what was revoked, and retains it, or takes it for leased_free_all; with it what was retained
 * and is not to be any more. The caller has the lock. */
void retained_take_revoked(struct pool *pool, enum retained_drop drop, struct leased_list *list);

/* When retained_take_out has something to do next, if nothing happens; UINT64_MAX: never. */
uint64_t retained_next_us(const struct pool *pool);

bool retained_has_any(const struct pool *pool);

/* Finds retained blocks that hold n_bytes together with the heap's holes that they touch: what stands there is to be
 * asked for, part by part. False: there are none, or they are larger than is good. */
bool retained_plan(const struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                   struct placement *ret_placement);

/* The block of that number, which was leased on that connection, is in use again. NULL: it is not retained any more. */
struct leased *retained_take(struct pool *pool, uint64_t number, uint64_t connection);
