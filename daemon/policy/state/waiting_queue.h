/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the requests that wait for a pool's memory: which one comes next.
 *
 * Each tenant has a queue of its own, in the order of asking. Between tenants turns go round by bytes:
 * first is the tenant that was given the fewest bytes of new blocks, of those equal the one whose head
 * asked first. A tenant that begins to wait starts level with the one served last: what it had before, or
 * did not ask for, is no claim; and what one was given that has ended is not forgotten, or those that come
 * and go would always be first. So nobody waits for more than what every other tenant is given once, in
 * bytes of its own request, however much the others ask for and however often. What a tenant holds is no
 * measure: one that holds little and asks all the time would keep the others waiting for ever. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

void waiting_queue_init(struct waiting_queue *queue);

/* The request's tenant waits, or does so no more; the request stands in, or leaves, its queue. */
void waiting_queue_enqueue(struct request *request);
void waiting_queue_dequeue(struct request *request);

/* The tenant has a block made; or the driver did not have it. */
void waiting_queue_give(struct holding *holding, uint64_t n_bytes);
void waiting_queue_take_back(struct holding *holding, uint64_t n_bytes);

/* The tenant ends. Who comes after it stands where it stood, or level with the first of those who wait. */
void waiting_queue_end(const struct holding *holding);

/* A walk along the queue. The request that waiting_queue_next gave last may leave the queue before the next one is
 * looked for, but no other. */
struct waiting_queue_walk {
        struct waiting_queue *queue;
        struct holding *at;
        struct holding *after;
};

struct waiting_queue_walk waiting_queue_begin(struct waiting_queue *queue);

/* Every request of the queue once; NULL at the end. */
struct request *waiting_queue_next(struct waiting_queue_walk *walk);

/* So many bytes are meant for the request that waiting_queue_next gave last: its tenant's next one stands so much
 * further behind in this walk. */
void waiting_queue_assign(struct waiting_queue_walk *walk, uint64_t n_bytes);
