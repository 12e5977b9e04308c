/* SPDX-License-Identifier: Apache-2.0 */
/* Service: the queues are walked through after events that may serve a request, until nothing changes any more.
 *
 * A pass walks through the queue of one pool after the other. If something that connects pools has changed meanwhile,
 * another pass follows. A pass can rest after any item: then events come, and the pass goes on where it was. Requests
 * that came meanwhile, and what events have changed, are the next pass's affair. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

/* -ENOMEM. */
int service_new(struct service **ret_service);

/* So much work is an answer or a block to be made, with what the server does for it. A request that goes on waiting is
 * one item. */
#define SERVICE_ANSWER_ITEMS 32

/* Call it after every change in the pool: grants, creates blocks, makes room, and refuses requests after
 * their deadline. Also serves other pools that are connected by limits. If the policy serves in turns, this is left to
 * service_go_on. */
void service_serve(struct pool *pool, uint64_t now_ns);

/* Does what service_serve left, at most so many items, and at least one. Returns how many of them are left; 0: there is
 * more to do. */
unsigned service_go_on(struct policy *policy, unsigned n_items, uint64_t now_ns);

/* The earliest time at which a wait in the pool can end without an event: a deadline, or the end of a hold.
 * UINT64_MAX: none. */
uint64_t service_next_deadline(const struct pool *pool);
