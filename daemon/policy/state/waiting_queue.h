/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the requests that wait for a pool's memory.
 *
 * Each tenant has a queue of its own, in the order of its requests. Between tenants the turns are by bytes:
 * the tenant that was given the fewest bytes of new blocks is first, and of equal ones the tenant whose
 * first request is older. A tenant that begins to wait starts level with the one served last: unused turns
 * of the past are no claim. The bytes of a tenant that ends are not forgotten, or tenants that come and go
 * would always be first. So no request waits longer than every other tenant takes to be given its size in
 * bytes once, however often others ask. The bytes that a tenant holds do not count: one that holds little
 * and asks all the time would keep others waiting for ever. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

void waiting_queue_init(struct waiting_queue *queue);

/* The request joins, or leaves, its tenant's queue; the tenant begins or ends to wait with it. */
void waiting_queue_enqueue(struct request *request);
void waiting_queue_dequeue(struct request *request);

/* A block is created for the tenant; or the driver did not have the memory. */
void waiting_queue_give(struct holding *holding, uint64_t n_bytes);
void waiting_queue_take_back(struct holding *holding, uint64_t n_bytes);

/* The tenant ends. A later tenant in its place starts where it stood, or level with the first waiting one. */
void waiting_queue_end(const struct holding *holding);

/* A walk through the queue, of which there is one at a time. It may rest after any step of it: requests and tenants then
 * come and go as they like. It meets every request once that waits all the while, and none that came after its beginning.
 * These functions count what they do: a holding or a request is an item, and *n_left goes down to 0 at least. */
void waiting_queue_begin(struct waiting_queue *queue, uint64_t number);

/* Sorts the tenants. Returns whether there is more to do before the first request. */
bool waiting_queue_sort(struct waiting_queue *queue, unsigned *n_left);

/* The next request; NULL at the end. It may leave the queue at any time. */
struct request *waiting_queue_next(struct waiting_queue *queue, unsigned *n_left);

/* So many bytes are meant for the request that waiting_queue_next returned last: its tenant's next request
 * moves that much further back in this walk. */
void waiting_queue_assign(struct waiting_queue *queue, uint64_t n_bytes);

/* It goes on waiting, for the bytes that are meant for it, while it is in the queue. */
void waiting_queue_mean(struct request *request, uint64_t n_bytes);

/* The request that the last part did not finish: it is met again. NULL: none, or it has left the queue. */
struct request *waiting_queue_go_on(struct waiting_queue *queue);

/* The walk rests, or is over. */
enum waiting_queue_end { WAITING_QUEUE_DONE_WITH, WAITING_QUEUE_UNFINISHED };
void waiting_queue_rest(struct waiting_queue *queue, enum waiting_queue_end end);
void waiting_queue_stop(struct waiting_queue *queue);
