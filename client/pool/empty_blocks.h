/* SPDX-License-Identifier: Apache-2.0 */
/* Trimming: which empty blocks are returned to the daemon, and when. Empty device blocks stay as long as the pool's
 * budget has room for them, so that repeated allocations cost nothing. Registered pinned blocks stay until they are
 * asked for, since unregistering waits for every running kernel; other processes of the tenant use them meanwhile.
 * Any thread; no lock is held. */
#pragma once

#include "client/blocks/lease.h"
#include "client/blocks/retained.h"

/* Returns idle blocks above the budget. `heap` was freed to just now, when it had this generation. `own_stream` is
 * its stream, which is alive; NULL: the caller does not have it. Where a cache size is exceeded, a look waits for the
 * stream, unless it never waits for work: a kernel that does not end must not hold up the service thread. */
enum look_patience { LOOK_MAY_WAIT, LOOK_NEVER_WAITS };
void empty_blocks_look(struct stream_heap *heap, uint64_t generation, void *const *own_stream,
                       enum look_patience patience);

/* With a cache size: finds out down to which floor each heap may free without a look (scan_trigger.h), again after each
 * look, and where more is leased or less pledged. The caller has the lock. */
void empty_blocks_set_floors(struct pool *pool);

/* Takes one idle block for leased_free_all, but none between the two addresses. The caller has the lock. */
bool empty_blocks_take_one(struct pool *pool, uint64_t start, uint64_t end,
                           struct leased_list *list);

/* Takes all idle and all retained blocks for leased_free_all. The caller has the lock. */
void empty_blocks_take_all(struct pool *pool, struct leased_list *list);

/* Are the heap's frees ordered with work that may not be over? */
bool empty_blocks_is_fenced(const struct stream_heap *heap);

/* Is it still the heap of that generation? The record may be another stream's by now. The caller has the lock, which
 * keeps the answer true. */
bool empty_blocks_is_still(struct stream_heap *heap, uint64_t generation);

/* Takes idle blocks until n_more_bytes fit the budget, but none between the two addresses. The caller has the lock,
 * and frees them with leased_free_all after it has released it. */
void empty_blocks_make_room(struct pool *pool, uint64_t n_more_bytes, uint64_t start, uint64_t end,
                            struct leased_list *list);

/* Takes the idle blocks above the budget, if their return waits for no kernels. The caller has the lock. */
void empty_blocks_take_excess(struct pool *pool, struct leased_list *list);

/* Asks how far all streams of the pool have come. The caller has the lock. */
void empty_blocks_poll(struct pool *pool);

/* Waits for the work that may use freed memory, so that the blocks that are empty by now can become idle. */
void empty_blocks_wait(struct pool *pool);

/* If more is held than the budget allows, waits for the work of all freed memory, and returns the excess. */
void empty_blocks_to_budget(struct pool *pool);

/* Waits for the work of all freed memory, and returns empty blocks until no more than n_keep_bytes are reserved.
 * Returns how many bytes these were. If less is reserved already, it does nothing. */
uint64_t empty_blocks_down_to(struct pool *pool, uint64_t n_keep_bytes);

/* The same for every empty block, and for retained ones. */
uint64_t empty_blocks_flush(struct pool *pool);

/* Returns the blocks that have been on the idle list since at_us, by the clock of base/clock.h; waits for no work. */
uint64_t empty_blocks_older(struct pool *pool, uint64_t at_us);

/* Returns every empty block, registered or not, for a request that would be refused otherwise. */
void empty_blocks_all(struct pool *pool);
