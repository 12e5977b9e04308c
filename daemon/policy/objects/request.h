/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a block, until it is granted, withdrawn, or its refusal has been taken.
 *
 * Owned by its client. It stands in its pool's queue while it is unanswered, also while its block
 * is being made: should that fail because the device is full, it still has its place. Of a group the one that
 * was asked last leads: it stands there for all (group.h). */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

int request_new(struct client *client, const struct policy_ask *ask, struct request **ret_request);

/* Without a trace: for a request that is granted, or whose answer nobody reads. A block that is
 * being made for it is made for the cache, or not at all if nobody has begun. */
struct request *request_free(struct request *request);

/* Blocks that serve it; and smaller ones that are better than none. */
struct bin_range request_fits(const struct request *request);
struct bin_range request_takes(const struct request *request);

/* The client's unanswered request of this serial, or NULL. */
struct request *request_find(struct client *client, uint32_t serial);

/* Takes `lease` over and enters the end of its tenant's queue. */
void request_wait(struct request *request, struct pool *pool, struct lease *take_lease);

/* Takes `lease` over, and waits for the one that will lead it. */
void request_gather(struct request *request, struct pool *pool, struct lease *take_lease);

/* Leads all of its client that have no leader. */
void request_lead(struct request *leader);

/* It goes on alone, in the queue: one of a leader's, or the leader when no other is left. */
void request_part(struct request *part);

/* Has a block made for it; -ENOMEM. */
int request_create(struct request *request);

/* The driver had no memory: back to its place in the queue. The block is gone. */
void request_device_full(struct request *request);

/* Hands `block` over and ends the request. */
struct request *request_grant(struct request *request, struct block *block);

/* Drops what it holds, and has the client told; before that the same of those that it leads. Needs no memory. */
void request_refuse(struct request *request, int outcome);

/* The same with GPUMEM_E_LIMIT, for this limit. */
void request_refuse_limit(struct request *request, const struct limit_hit *hit);
