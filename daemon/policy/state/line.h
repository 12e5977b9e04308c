/* Who is looked at next of those who wait for a pool's memory.
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

void line_init(struct line *line);

/* The request's tenant waits, or does so no more; the request stands in, or leaves, its queue. */
void line_join(struct request *request);
void line_leave(struct request *request);

/* The tenant has a block made; or the driver did not have it. */
void line_give(struct holding *holding, uint64_t n_bytes);
void line_take_back(struct holding *holding, uint64_t n_bytes);

/* The tenant ends. Who comes after it stands where it stood, or level with the first of those who wait. */
void line_end(const struct holding *holding);

/* A walk along the line. The request that line_next gave last may leave the line before the next one is
 * looked for, but no other. */
struct line_walk {
        struct line *line;
        struct holding *at;
        struct holding *after;
};

struct line_walk line_begin(struct line *line);

/* Every request of the line once; NULL at the end. */
struct request *line_next(struct line_walk *walk);

/* So many bytes are meant for the request that line_next gave last: its tenant's next one stands so much
 * further behind in this walk. */
void line_mean(struct line_walk *walk, uint64_t n_bytes);
