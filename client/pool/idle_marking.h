/* SPDX-License-Identifier: Apache-2.0 */
/* Idle marking: lets others have memory that a process does not use. Blocks that are empty, and whose work is over,
 * are put on the idle list, where the daemon may revoke their leases. The process keeps them mapped, and reuses them
 * for a later allocation without a message.
 *
 * A free that passes a threshold records how far its stream has come, and wakes the service thread. The thread looks
 * every few milliseconds until nothing is left to become idle. A block goes to the idle list at the second look that
 * finds it idle. So blocks that a loop empties and fills again stay in their heap. Not for pools with a cache size:
 * their empty blocks are returned instead, by frees as a rule. Any thread, without locks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "client/blocks/pool_state.h"

/* Are the pool's empty blocks put on the idle list? */
bool idle_marking_is_on(const struct pool *pool);

/* The pool keeps so many empty bytes from now on; UINT64_MAX: they are put on the idle list. */
void idle_marking_resize(struct pool *pool, uint64_t n_cache_bytes);

/* Records the heap's frees in its stream and arranges a look at the pool soon. The heap was freed to just now, when
 * it had this generation. `own_stream`: its stream, which is alive; NULL: the caller does not have it. */
void idle_marking_note(struct stream_heap *heap, uint64_t generation, void *const *own_stream);

/* Are there earlier frees that could not be recorded, or were more than may be at a time? Any thread records those in
 * default streams and registered ones, which live, at the end of a public call. In any other stream a call that names
 * it does. Without locks. */
static inline bool idle_marking_owes(const struct pool *pool)
{
        return atomic_load_explicit(&pool->is_owing, memory_order_relaxed);
}

/* Records them; with a cache size, which owes none, all that was freed. `waits`: for the pool's lock, too; else a later
 * call does it where another thread has the lock. */
COLD void idle_marking_catch_up(struct pool *pool, bool waits);

/* Looks at the pool; waits for no work. Puts blocks on the idle list that have been idle since the last look, or all idle blocks. Unmaps
 * revoked blocks that are not retained. Returns in how many ms to look again, as service_thread.h defines it.
 * IDLE_MARKING_WHEN_DUE is for threads that free while there is no service thread: they look only if it is time. With a
 * cache size no block is put there; what exceeds the size is returned, as it is where graphs have left memory. */
enum idle_marking_urgency { IDLE_MARKING_IN_TIME, IDLE_MARKING_URGENT, IDLE_MARKING_WHEN_DUE };
int idle_marking_look(struct pool *pool, enum idle_marking_urgency urgency);
