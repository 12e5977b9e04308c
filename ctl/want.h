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

struct want_rows {
        const struct block_row *blocks;
        uint32_t n_blocks;
        const struct client_row *clients;
        uint32_t n_clients;
        const struct limit_row *limits;
        uint32_t n_limits;
};

struct want_limit {
        const struct limit_row *row; /* NULL: there is none */
        uint64_t room;               /* that it leaves */
};

/* The limit of a kind, PROTO_LIMIT_*_BYTES or _LEASES, that leaves who was refused the least at present, of clients
 * and of tenants. */
struct want_limit want_limit(const struct want_rows *rows, const struct event_row *refused,
                             uint32_t kind);

/* For one allocation the library asks twice, and may wait between: what came within so long is taken for one. */
#define WANT_OF_ONE_MS 2000
bool want_is_of_one(const struct event_row *row, const struct event_row *later);

/* Joins refusals that are of one: it is the last of them, and `times` is of all. Returns how many are left. */
uint32_t want_join(struct event_row *rows, uint32_t n);

/* -ENOMEM */
int want_find_holders(const struct want_rows *rows, uint32_t pool,
                      struct want_holders *ret_holders);
