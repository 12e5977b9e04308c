/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: whether a request is served now, waits or is refused. Every request goes through its pool's queue.
 *
 * A request is served by a cached block of its tenant, else by one that another client of the tenant
 * leases and does not use, else by one that was prewarmed (prewarm.h), else by a new block in the room that the pool has left, else by one in the
 * room that releasing blocks makes (evict_cached.h). While bytes that
 * come for certain will serve it, it is kept whatever its deadline: that is no waiting for others.
 *
 * What nobody uses does not pile up beside what is used: where a new block of a device is made although more than a
 * little is cached or idle that did not serve the request, as much of that goes (evict_cached.h).
 *
 * Fairness: within a tenant room goes to requests in the order of asking, between tenants by turns
 * (waiting_queue.h). A request that fits may bypass larger ones that do not, so many times (backfill.h): it takes room
 * that they wait for, or lets it go for itself. So a large request is not starved by small ones, nor may one
 * that cannot be met bring the others to a stand. One thing
 * bypasses without being counted: a cached block serves the oldest request of its own tenant that it fits.
 * The deadline bounds what that can cost.
 *
 * A request that its client's or its tenant's limits do not allow waits too, but holds up only those that the same
 * limit binds (quota.h). One that they could never allow is refused at once.
 *
 * When the driver has less than the pool's limit, a request is tried again only after bytes of the pool have come back
 * to the driver; cached blocks are released for that, as far as there are any, and if it waits idle leases' too. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

void admission_ask(struct client *client, const struct policy_ask *ask, uint64_t now_ns);

/* To be called whenever something in the pool has changed: grants, has blocks made, makes room and refuses what is out
 * of time. Other pools are served with it as far as limits connect them. */
void admission_serve(struct pool *pool, uint64_t now_ns);

/* What admission_serve left for this turn, if the policy serves in turns. */
void admission_take_turn(struct policy *policy, uint64_t now_ns);

/* The earliest moment in the pool at which a wait can end without anybody's doing: a deadline, or the end of the time
 * for which others are held up; UINT64_MAX for none. */
uint64_t admission_next_deadline(const struct pool *pool);
