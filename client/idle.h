/* Empty blocks: which go back to the daemon, and when. Device blocks that no allocation needs stay as
 * long as the pool's budget has room for them, so that an allocation that comes again costs nothing;
 * pinned ones that are registered stay until they are asked for, since unregistering waits for every
 * running kernel: others of the tenant use them meanwhile. Any thread; no lock is held. */
#pragma once

#include "client/blocks.h"

/* Gives back what is above the budget and idle. `heap` was freed to just now, when it was of that
 * generation; `own_stream` is its stream, which is alive, or NULL for one who does not have it. */
void idle_look(struct stream_heap *heap, uint64_t generation, void *const *own_stream);

/* Takes one that is idle, and none between the two addresses, for idle_return. The caller has the lock. */
bool idle_take_one(struct pool *pool, uint64_t start, uint64_t end, struct leased_list *list);

/* Takes off the shelf what was revoked, and keeps it, or takes it for idle_return; with it what was kept
 * and is not to be any more. The caller has the lock. */
void idle_take_revoked(struct pool *pool, enum kept_drop drop, struct leased_list *list);

/* Takes all that is idle, and all that is kept, for idle_return. The caller has the lock. */
void idle_take_all(struct pool *pool, struct leased_list *list);

/* The heap's frees are ordered with work that may not be over. */
bool idle_is_fenced(const struct stream_heap *heap);

/* The record may be another stream's heap by now. The caller has the lock, so it stays what it is. */
bool idle_is_still(struct stream_heap *heap, uint64_t generation);

/* Takes blocks that are idle until n_more_bytes fit the budget; none between the two addresses. The
 * caller has the lock, and gives them back with idle_return when it has not. */
void idle_make_room(struct pool *pool, uint64_t n_more_bytes, uint64_t start, uint64_t end,
                    struct leased_list *list);
void idle_return(struct pool *pool, struct leased_list *list);

/* Looks how far all streams of the pool have come. The caller has the lock. */
void idle_poll(struct pool *pool);

/* Waits for the work of all that was freed, and gives back every empty block. Returns how many
 * bytes. */
uint64_t idle_flush(struct pool *pool);

/* Gives back every empty block, registered or not, for a request that would be refused otherwise. */
void idle_give_up(struct pool *pool);

/* The pool's clock: it stands while blocks are leased and returned. The caller has the lock. */
uint64_t idle_now_us(const struct pool *pool);

/* Stops the pool's clock for what has begun at that time of the system's and ends now. */
void idle_stop_clock(struct pool *pool, uint64_t since_us);
