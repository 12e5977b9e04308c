/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for what others hold, in one walk through a pool's queue, and those that bypass them.
 *
 * A request that fits into what there is may bypass larger ones that do not. Each may be bypassed so many
 * times; then those behind it wait, small as they may be, or a large request would never see enough
 * memory in one piece of time. Those that ask for as much or more wait behind it from the beginning.
 *
 * What others hold in use may not come back for as long as a request waits, and nothing else is to stand
 * still for that: those of one tenant hold up others for BACKFILL_HOLD_NS at most in every BACKFILL_ROUND_NS, which
 * begins when a request is held up. In the rest of it they may be bypassed freely, by requests of any size. So memory
 * that comes and goes within the first is collected for a large request, however often it was bypassed; and
 * what is asked for in vain costs others a tenth of their time. What comes and goes more slowly than that
 * is taken by those that bypass it, for as long as there are such. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* Times that a request may be bypassed. */
#define BACKFILL_MAX 8

#define BACKFILL_HOLD_NS  UINT64_C(1000000000)
#define BACKFILL_ROUND_NS (10 * BACKFILL_HOLD_NS)

/* When it ends, or has ended; 0: it never was. */
uint64_t backfill_hold_end(const struct backfill_hold *hold);

struct backfill {
        struct request *first;         /* of those that wait, seen last */
        bool any;                      /* of them hold up others; else the next two mean nothing */
        uint64_t n_least_bytes;        /* that one of these waits for */
        unsigned n_allowed;            /* blocks that may be meant for others in the walk */
        unsigned n_assigned, n_served; /* blocks that were meant for others, and made */
        struct backfill_hold *quiet;   /* the tenants that have not held up others yet */
};

/* The request waits for what others hold. */
void backfill_wait(struct backfill *backfill, struct request *request, uint64_t now_ns);

/* Whether the request may be given what those who wait before it do not get. */
bool backfill_is_allowed(const struct backfill *backfill, const struct request *request);

/* It may not: those that are in its way hold it up from now on. */
void backfill_hold_up(struct backfill *backfill, const struct request *request, uint64_t now_ns);

/* A block is meant for a request, and later it is made. */
void backfill_assign(struct backfill *backfill);
void backfill_count(struct backfill *backfill);

/* To be called at the end of the walk, if nothing else will happen to the requests before. */
void backfill_end(struct backfill *backfill);
