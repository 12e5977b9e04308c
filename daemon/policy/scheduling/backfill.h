/* SPDX-License-Identifier: Apache-2.0 */
/* Backfill: in one walk through a pool's queue, requests that wait for memory in use, and requests that
 * bypass them.
 *
 * A request that fits may bypass larger ones that do not. Each may be bypassed a limited number of times.
 * Then later ones wait behind it, even small ones: otherwise a large request would never find enough memory
 * at one time. Requests of the same size or larger wait behind it from the start.
 *
 * Memory in use may not come back while a request waits, and the pool must not stand still for that. So one
 * tenant's requests hold up others for at most BACKFILL_HOLD_NS in every BACKFILL_ROUND_NS, which begins
 * when a request is held up. In the rest of the round, requests of any size may bypass them freely. Memory
 * that is freed and taken often is so collected for a large request within the hold. A request that waits
 * in vain costs others a tenth of their time. Memory that is freed more slowly goes to the requests that
 * bypass, while there are some. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/state/types.h"

/* How often a request may be bypassed. */
#define BACKFILL_MAX 8

/* When the hold ends, or has ended; 0: there was none. */
uint64_t backfill_hold_end(const struct backfill_hold *hold);

struct backfill {
        uint64_t walk;       /* its number */
        uint64_t n_bypasses; /* of the pool, when the walk began */
        bool any;            /* of those before hold up others; else the next two have no meaning */
        uint64_t n_least_bytes;           /* the smallest size that one of them waits for */
        unsigned n_allowed;               /* blocks that may be meant for others in this walk */
        unsigned n_assigned;              /* blocks that were meant for others */
        uint64_t hold_end_ns;             /* when the first hold ends; UINT64_MAX: there is none */
        unsigned n_looks;                 /* at those in the list, so far */
        LIST_HEAD(, backfill_hold) quiet; /* tenants that have not held up others yet */
};

void backfill_begin(struct backfill *backfill, const struct pool *pool, uint64_t walk);

/* The walk meets the request. */
void backfill_meet(struct backfill *backfill, struct request *request, uint64_t now_ns);

/* The request waits for memory in use. */
void backfill_wait(struct backfill *backfill, struct request *request, uint64_t now_ns);

/* Whether the request may have memory that earlier waiting requests do not get. */
bool backfill_is_allowed(const struct backfill *backfill, const struct request *request);

/* It may not: the requests before it hold it up from now on. */
void backfill_hold_up(struct backfill *backfill, const struct request *request, uint64_t now_ns);

/* A block is meant for a request; and later created for it, or taken from those without a tenant. */
void backfill_assign(struct backfill *backfill);
void backfill_count(struct pool *pool);

/* How often the request was bypassed. Between walks. */
unsigned backfill_n_bypassed(const struct request *request);
