/* Requests that wait for what others hold, in one walk through a pool's line, and those that pass them.
 *
 * A request that fits into what there is may pass larger ones that do not. Each may be passed so many
 * times; then those behind it wait, small as they may be, or a large request would never see enough
 * memory in one piece of time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Times that a request may be passed. */
#define PASSING_MAX 8

struct request;

struct passing {
        struct request *first;  /* of those that wait, seen last */
        unsigned n_left;        /* that may pass; of no meaning while nobody waits */
        unsigned n_passed;      /* in this walk */
        uint64_t n_least_bytes; /* that somebody waits for */
};

/* The request waits for what others hold. */
void passing_wait(struct passing *passing, struct request *request);

/* Whether the request may be given what those who wait before it do not get. */
bool passing_is_allowed(const struct passing *passing, const struct request *request);

/* Something is meant for a request, and later it has a block made. */
void passing_mean(struct passing *passing);
void passing_count(struct passing *passing);

/* To be called at the end of the walk, if nothing else will happen to the requests before. */
void passing_end(struct passing *passing);
