/* SPDX-License-Identifier: Apache-2.0 */
/* Idle marking: others may have what a process does not use. Blocks that are empty, and whose work is over, are put on
 * the idle list, where the daemon may revoke their leases. The process does not unmap them, and has them back at a miss
 * without a message.
 *
 * A free that finds a threshold passed records how far its stream has come, and wakes the service thread; that looks
 * every few milliseconds until nothing is left to become idle. A block goes to the idle list at the second look that
 * finds it idle: what a loop empties and fills again stays in its heap. Not for pools with a cache size of their own,
 * whose empty blocks are given back instead. Any thread, without locks. */
#pragma once

#include <stdbool.h>

#include "client/blocks/pool_state.h"

/* Are the pool's empty blocks put on the idle list? */
bool idle_marking_is_on(const struct pool *pool);

/* Records the heap's frees in its stream, which is alive, if it is at hand (else NULL), and sees to it that the pool is
 * looked at soon. The heap was freed to just now, when it was of that generation. */
void idle_marking_note(struct stream_heap *heap, uint64_t generation, void *const *own_stream);

/* Looks at the pool: puts on the idle list what has been idle since the last look, or all that is idle, and unmaps what
 * was revoked and is not to be kept. In how many ms to look again, as service_thread.h has it. Those who free where
 * there is no thread look only if it is time. */
enum idle_marking_urgency { IDLE_MARKING_IN_TIME, IDLE_MARKING_URGENT, IDLE_MARKING_WHEN_DUE };
int idle_marking_look(struct pool *pool, enum idle_marking_urgency urgency);
