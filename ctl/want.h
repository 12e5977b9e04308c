/* What was wanting when a LEASE was refused, and whether it still is. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"
#include "proto/proto.h"

#define WANT_N_HOLDERS 3

struct want_holder {
        uint32_t pid;
        uint32_t uid;
        uint64_t n_bytes;
        char program[32];
};

/* Who holds a pool's memory, the largest first. */
struct want_holders {
        struct want_holder largest[WANT_N_HOLDERS];
        unsigned n;
        uint64_t n_more_bytes;   /* of those that may be named, and are too many */
        uint64_t n_others_bytes; /* of other tenants */
};

/* A refusal for want of memory, or of room under a limit. */
bool want_is_of_memory(const struct event_row *row);

/* What the pool could give at present to one who waits a little: what is free, cached or idle. Limits of clients
 * and tenants are another matter. */
uint64_t want_room(const struct stats_row *stats);

/* The limit on bytes that leaves who was refused the least at present, of clients and of tenants, in a pool of this
 * kind; NULL: there is none. */
const struct limit_row *want_limit(const struct limit_row *rows, uint32_t n,
                                   const struct event_row *refused, uint32_t pool_kind);

/* What it leaves. */
uint64_t want_limit_room(const struct limit_row *limit);

struct want_rows {
        const struct block_row *blocks;
        uint32_t n_blocks;
        const struct client_row *clients;
        uint32_t n_clients;
};

/* -ENOMEM */
int want_find_holders(const struct want_rows *rows, uint32_t pool,
                      struct want_holders *ret_holders);
