/* Requests that wait for what others hold, in one walk through a pool's queue, and those that pass them.
 *
 * A request that fits into what there is may pass larger ones that do not. Each may be passed so many
 * times; then those behind it wait, small as they may be, or a large request would never see enough
 * memory in one piece of time. Those that ask for as much or more wait behind it from the beginning.
 *
 * What others hold in use may not come back for as long as a request waits, and nobody is to stand still for
 * that: those of one tenant hold up others for PASSING_HOLD_NS at most in every PASSING_ROUND_NS, which
 * begins when somebody is held up. In the rest of it they may be passed freely, by whatever size. So memory
 * that comes and goes within the first is collected for a large request, however often it was passed; and
 * what is asked for in vain costs others a tenth of their time. What comes and goes more slowly than that
 * is taken by those that pass, for as long as there are such. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* Times that a request may be passed. */
#define PASSING_MAX 8

#define PASSING_HOLD_NS  UINT64_C(1000000000)
#define PASSING_ROUND_NS (10 * PASSING_HOLD_NS)

/* When it ends, or has ended; 0: it never was. */
uint64_t passing_hold_end(const struct passing_hold *hold);

struct passing {
        struct request *first;      /* of those that wait, seen last */
        bool any;                   /* of them hold up others; else the next two mean nothing */
        uint64_t n_least_bytes;     /* that one of these waits for */
        unsigned n_may;             /* blocks that may be meant for others in the walk */
        unsigned n_meant, n_passed; /* that were meant, and made */
        struct passing_hold *quiet; /* the tenants that have not held up others yet */
};

/* The request waits for what others hold. */
void passing_wait(struct passing *passing, struct request *request, uint64_t now_ns);

/* Whether the request may be given what those who wait before it do not get. */
bool passing_is_allowed(const struct passing *passing, const struct request *request);

/* It may not: those that are in its way hold it up from now on. */
void passing_hold_up(struct passing *passing, const struct request *request, uint64_t now_ns);

/* Something is meant for a request, and later it has a block made. */
void passing_mean(struct passing *passing);
void passing_count(struct passing *passing);

/* To be called at the end of the walk, if nothing else will happen to the requests before. */
void passing_end(struct passing *passing);
