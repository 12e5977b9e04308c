/* SPDX-License-Identifier: Apache-2.0 */
/* A deadlock: all clients that hold memory of a pool wait for more of it, so none gives any back.
 *
 * A client waits when one of its requests does, and none is about to be served. A client that holds all of the memory
 * waits for its own threads; that is no deadlock. Nor is it one while memory is on its way back, or while idle memory
 * would serve one of the requests. Of a deadlock the last request is refused, since the others have waited longer. */
#pragma once

#include "daemon/policy/state/types.h"

/* Other threads of a client that waits may give back what it holds: so it is one only when nothing has moved in the pool
 * for so long. It is little beside what a request is ready to wait. */
#define DEADLOCK_NS UINT64_C(1000000000)

/* The request to refuse, or NULL. After a walk through the queue. */
struct request *deadlock_find(struct pool *pool, uint64_t now_ns);

/* When the next look may find one; UINT64_MAX: there is none to be seen. */
uint64_t deadlock_next(const struct pool *pool);
