/* What a client says of itself on its board, made fit to be shown and added up. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

struct claims {
        uint64_t requested, requested_peak; /* requested <= allocated <= what it is charged */
        uint64_t allocated, allocated_peak; /* peaks: from that up to the pool's capacity */
        uint64_t hits, misses;              /* any number: for claims_add */
};

/* Nothing of a client that does not serve itself any more: its board is nobody's. */
struct claims claims_read(const struct session *session, uint32_t pool);

/* Adds up to INT64_MAX, the largest number that JSON readers take: one who lies spoils a sum, but
 * does not wrap it. */
void claims_add(uint64_t *sum, uint64_t n);
