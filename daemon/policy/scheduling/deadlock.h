/* SPDX-License-Identifier: Apache-2.0 */
/* A deadlock: all clients that hold memory of a pool wait for more of it, so none returns any.
 *
 * A client waits when one of its requests does, and none of them is about to be served. A client that holds
 * all the memory alone waits for its own threads, which is not a deadlock. There is no deadlock while
 * memory is on its way back, or while idle memory would serve a request. The last request of a deadlock is
 * refused, since the others have waited longer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/numbered.h"
#include "daemon/policy/state/types.h"

/* Other threads of a waiting client may return memory, so a deadlock needs a time in which nothing moves in
 * the pool. The time is short beside a request's usual deadline. */
#define DEADLOCK_NS UINT64_C(1000000000)

/* What a walk through the queue has seen of it. */
struct deadlock_look {
        uint64_t number;        /* of the look */
        uint64_t n_stuck;       /* clients that hold memory and wait */
        bool any_moves;         /* a request of such a client is about to be served */
        struct request *last;   /* of these requests; it may be gone, if the walk has lost one */
        uint64_t n_least_bytes; /* the least that one of them waits for */
        bool is_likely;         /* all that hold memory wait, as far as the walk has seen */
        struct numbered_walk place; /* of the search for idle leases that would serve one, */
        unsigned n_scans;           /* which has scanned so many, */
        uint64_t n_idle_bytes;      /* and found so much */
};

/* The walk begins; it has met a request, which goes on waiting; it has met all. */
void deadlock_begin(struct deadlock_look *look, struct policy *policy);
void deadlock_meet(struct deadlock_look *look, struct request *request);
void deadlock_met_all(struct deadlock_look *look, const struct pool *pool);

/* Looks for idle leases, at *n_left blocks at most. Returns whether there are more to look at. */
bool deadlock_look_on(struct deadlock_look *look, const struct pool *pool, unsigned *n_left);

/* The request to refuse, or NULL. Call it when the walk is over. */
struct request *deadlock_find(const struct deadlock_look *look, struct pool *pool, uint64_t now_ns);

/* When the next search may find one; UINT64_MAX: there is no sign of one. */
uint64_t deadlock_next(const struct pool *pool);
