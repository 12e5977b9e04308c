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

#include "daemon/policy/state/types.h"

/* How often a request may be bypassed. */
#define BACKFILL_MAX 8

#define BACKFILL_HOLD_NS  UINT64_C(1000000000)
#define BACKFILL_ROUND_NS (10 * BACKFILL_HOLD_NS)

/* When the hold ends, or has ended; 0: there was none. */
uint64_t backfill_hold_end(const struct backfill_hold *hold);

struct backfill {
        struct request *first;  /* of the waiting ones, as last seen */
        bool any;               /* of them hold up others; else the next two have no meaning */
        uint64_t n_least_bytes; /* the smallest size that one of them waits for */
        unsigned n_allowed;     /* blocks that may be meant for others in this walk */
        unsigned n_assigned, n_served; /* blocks that were meant for others, and those created */
        struct backfill_hold *quiet;   /* tenants that have not held up others yet */
};

/* The request waits for memory in use. */
void backfill_wait(struct backfill *backfill, struct request *request, uint64_t now_ns);

/* Whether the request may have memory that earlier waiting requests do not get. */
bool backfill_is_allowed(const struct backfill *backfill, const struct request *request);

/* It may not: the requests before it hold it up from now on. */
void backfill_hold_up(struct backfill *backfill, const struct request *request, uint64_t now_ns);

/* A block is meant for a request; and later created for it. */
void backfill_assign(struct backfill *backfill);
void backfill_count(struct backfill *backfill);

/* Call it at the end of the walk, if nothing else happens to the requests before. */
void backfill_end(struct backfill *backfill);
