/* All that a daemon says of its memory, of nearly one moment: pools and their figures, blocks, clients.
 * One thread. */
#pragma once

#include "ctl/query/listing.h"
#include "ctl/query/pool_stats.h"

struct known {
        struct pool_stats pool_stats;
        struct listed blocks;  /* struct block_row */
        struct listed clients; /* struct client_row */
};

#define KNOWN_NULL                      \
        {                               \
                .pool_stats = {.n = 0 } \
        }

void known_deinit(struct known *known);

/* Of the blocks those of the pool, or of all: PROTO_ALL_POOLS. What was fetched before a failure is for
 * known_deinit. */
int known_fetch(struct link *link, uint32_t pool, struct known *ret_known);

/* The client's row of that process and user; NULL if there is none. */
const struct client_row *known_client(const struct known *known, uint32_t uid, uint32_t pid);
