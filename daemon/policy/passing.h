/* Requests that wait for what others hold, in one walk through a pool's line, and those that pass them.
 *
 * A request that fits into what there is may pass larger ones that do not. Each may be passed so many
 * times; then those behind it wait, small as they may be, or a large request would never see enough
 * memory in one piece of time.
 *
 * What others hold in use may not come back for as long as a request waits, and nobody is to stand still for
 * that: those of one tenant hold up others for PASSING_HOLD_NS at most in every PASSING_ROUND_NS. In the rest
 * of it they may be passed freely. So memory that comes and goes within the first is collected for a large
 * request, however often it was passed; and what is asked for in vain costs others a tenth of their time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Times that a request may be passed. */
#define PASSING_MAX 8

#define PASSING_HOLD_NS  UINT64_C(1000000000)
#define PASSING_ROUND_NS (10 * PASSING_HOLD_NS)

struct request;

/* When a tenant's requests for a pool began to hold up others, the last time. */
struct passing_hold {
        bool was;
        uint64_t since_ns;
};

/* When it ends, or has ended; 0: it never was. */
uint64_t passing_hold_end(const struct passing_hold *hold);

struct passing {
        struct request *first;  /* of those that wait, seen last */
        unsigned n_left;        /* that may pass; of no meaning while nobody waits */
        unsigned n_passed;      /* in this walk */
        uint64_t n_least_bytes; /* that somebody waits for */
};

/* The request waits for what others hold; the hold is its tenant's. */
void passing_wait(struct passing *passing, struct request *request, struct passing_hold *hold,
                  uint64_t now_ns);

/* Whether the request may be given what those who wait before it do not get. */
bool passing_is_allowed(const struct passing *passing, const struct request *request);

/* Something is meant for a request, and later it has a block made. */
void passing_mean(struct passing *passing);
void passing_count(struct passing *passing);

/* To be called at the end of the walk, if nothing else will happen to the requests before. */
void passing_end(struct passing *passing);
