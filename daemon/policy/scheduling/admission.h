/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: whether a request is served now, waits or is refused. Every request passes through its pool's
 * queue.
 *
 * A request is served, in this order, by a cached block of its tenant, an idle block of another client of
 * the tenant, a prewarmed block (prewarm.h), a new block in the pool's free room, or a new block in room
 * that a release makes (evict_cached.h). While bytes that are certain to come will serve it, it stays even
 * after its deadline: that is not waiting for other clients.
 *
 * Unused memory does not pile up: if a new device block is created although cached or idle blocks did not
 * serve the request, about as much of those is released (evict_cached.h).
 *
 * Fairness: within a tenant, room goes to requests in their order; between tenants, by turns
 * (waiting_queue.h). A request that fits may bypass larger ones that do not, a limited number of times
 * (backfill.h). So small requests do not starve a large one, and a request that cannot be served does not
 * stop the others. One bypass is not counted: a cached block serves the oldest request of its own tenant
 * that it fits. The deadline limits its cost.
 *
 * A request that exceeds a limit of its client or tenant waits, too, but holds up only requests under the
 * same limit (quota.h). One that can never be within the limit is refused at once.
 *
 * If the driver has less memory than the pool's limit, a request is retried only after bytes of the pool
 * have gone back to the driver. Cached blocks are released for that, and for a request that waits also idle
 * leases'. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

/* Takes the client's request. Returns the pool whose queue it has joined, which is to be served; or NULL. */
struct pool *admission_ask(struct client *client, const struct policy_ask *ask, uint64_t now_ns);

/* The walk meets the request in its queue. */
struct turn;
void admission_meet(struct turn *turn, struct request *request);
