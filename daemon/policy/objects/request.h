/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a block, until it is granted, withdrawn, or its refusal has been taken.
 *
 * Owned by its client. It is in its pool's queue while it is unanswered, also while its block is being
 * created: if the device is full, it still has its place. The last request of a group is its leader, and is
 * in the queue for all (request_group.h). */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

int request_new(struct client *client, const struct policy_ask *ask, struct request **ret_request);

/* For a request that is granted, or whose answer is not needed. A block that is being created for it goes
 * to the cache; if the worker has not begun, it is not created. */
struct request *request_free(struct request *request);

/* Blocks that serve it; and smaller ones that it also accepts. */
struct bin_range request_fits(const struct request *request);
struct bin_range request_takes(const struct request *request);

/* The client's unanswered request with this serial, or NULL. */
struct request *request_find(struct client *client, uint32_t serial);

/* Takes `take_lease` over, and joins the end of its tenant's queue. */
void request_wait(struct request *request, struct pool *pool, struct lease *take_lease);

/* Takes `take_lease` over, and waits for its leader. */
void request_gather(struct request *request, struct pool *pool, struct lease *take_lease);

/* Makes it the leader of all its client's requests that have none. */
void request_lead(struct request *leader);

/* Continues alone, in the queue: a part of a group, or the leader when no other is left. */
void request_part(struct request *part);

/* Creates a block for it; -ENOMEM. */
int request_create(struct request *request);

/* The driver had no memory: returns the request to its place in the queue. The block is gone. */
void request_device_full(struct request *request);

/* Gives `block` to its lease and ends the request. */
struct request *request_grant(struct request *request, struct block *block);

/* Frees what it holds and queues the refusal; before that the same for its group's requests. Needs no
 * memory. */
void request_refuse(struct request *request, int outcome);

/* The same with GPUMEM_E_LIMIT, for this limit. */
void request_refuse_limit(struct request *request, const struct limit_hit *hit);
