/* SPDX-License-Identifier: Apache-2.0 */
/* Empty blocks: which go back to the daemon, and when. Device blocks that no allocation needs stay as long as the
 * pool's budget has room for them, so that an allocation that comes again costs nothing; pinned ones that are
 * registered stay until they are asked for, since unregistering waits for every running kernel: others of the tenant
 * use them meanwhile. Any thread; no lock is held. */
#pragma once

#include "client/blocks/lease.h"
#include "client/blocks/retained.h"

/* Gives back what is above the budget and idle. `heap` was freed to just now, when it was of that generation;
 * `own_stream` is its stream, which is alive, or NULL for one who does not have it. */
void trim_look(struct stream_heap *heap, uint64_t generation, void *const *own_stream);

/* Takes one that is idle, and none between the two addresses, for leased_free_all. The caller has the lock. */
bool trim_take_one(struct pool *pool, uint64_t start, uint64_t end, struct leased_list *list);

/* Takes all that is idle, and all that is kept, for leased_free_all. The caller has the lock. */
void trim_take_all(struct pool *pool, struct leased_list *list);

/* The heap's frees are ordered with work that may not be over. */
bool trim_is_fenced(const struct stream_heap *heap);

/* The record may be another stream's heap by now. The caller has the lock, so it stays what it is. */
bool trim_is_still(struct stream_heap *heap, uint64_t generation);

/* Takes blocks that are idle until n_more_bytes fit the budget; none between the two addresses. The caller has the
 * lock, and gives them back with leased_free_all when it has not. */
void trim_make_room(struct pool *pool, uint64_t n_more_bytes, uint64_t start, uint64_t end,
                    struct leased_list *list);

/* Looks how far all streams of the pool have come. The caller has the lock. */
void trim_poll(struct pool *pool);

/* Where more is held than the budget has room for, waits for the work of all that was freed, and gives that much
 * back. */
void trim_to_budget(struct pool *pool);

/* Waits for the work of all that was freed, and gives back every empty block. Returns how many bytes. */
uint64_t trim_flush(struct pool *pool);

/* Gives back every empty block, registered or not, for a request that would be refused otherwise. */
void trim_all(struct pool *pool);
