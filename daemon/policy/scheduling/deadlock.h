/* SPDX-License-Identifier: Apache-2.0 */
/* A deadlock: all clients that hold memory of a pool wait for more of it, so none returns any.
 *
 * A client waits when one of its requests does, and none of them is about to be served. A client that holds
 * all the memory alone waits for its own threads, which is not a deadlock. There is no deadlock while
 * memory is on its way back, or while idle memory would serve a request. The last request of a deadlock is
 * refused, since the others have waited longer. */
#pragma once

#include "daemon/policy/state/types.h"

/* Other threads of a waiting client may return memory, so a deadlock needs a time in which nothing moves in
 * the pool. The time is short beside a request's usual deadline. */
#define DEADLOCK_NS UINT64_C(1000000000)

/* The request to refuse, or NULL. Call it after a walk through the queue. */
struct request *deadlock_find(struct pool *pool, uint64_t now_ns);

/* When the next search may find one; UINT64_MAX: there is no sign of one. */
uint64_t deadlock_next(const struct pool *pool);
