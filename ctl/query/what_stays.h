/* SPDX-License-Identifier: Apache-2.0 */
/* What has not gone back to the driver when all was to be freed: found in the rows of blocks and clients, with the
 * reason. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"

enum stay_kind {
        STAY_REGISTERED, /* pinned memory that a process keeps registered */
        STAY_MAPPED,     /* other memory that a process has not unmapped */
        STAY_IDLE,       /* in a lease, and not used at present */
        STAY_LEFT,       /* of a client whose connection is over, and whose process is not */
        STAY_ORPHANED,   /* of one whose process is over, and whose connection is not */
        STAY_UNCHARGED,  /* no process's: the driver does not take it */
        STAY_DECLARED,   /* of an earlier daemon, and still held */
        STAY_HELD,       /* in a lease: in use, or freed there and not marked idle */
        STAY_N_KINDS,
};

/* One process's, for one reason. */
struct stay {
        enum stay_kind kind;
        uint32_t uid;
        uint32_t pid; /* 0: none */
        uint64_t n_bytes;
        uint64_t n_allocated_bytes; /* of what is held; LISTING_UNTOLD: not known */
        bool is_stopped;            /* it can do nothing about that */
        char program[32];
};

struct stays {
        struct stay *stays; /* the most bytes first; what is held stands behind all else */
        uint32_t n;
        bool is_short_of_memory; /* some are missing */
};

/* A tenant, as the rows of clients name it. */
struct stay_tenant {
        uint32_t uid;
        const char *container; /* "": in none; NULL: wherever it is */
};

bool stay_tenant_is(const struct stay_tenant *tenant, uint32_t uid, const char *container);

/* Whose rows count: a tenant's, or with NULL all tenants'. Those that stand for other tenants are passed over. A block
 * whose client has no row counts by its user alone. */
void stays_find(const struct block_row *blocks, uint32_t n_blocks, const struct client_row *clients,
                uint32_t n_clients, const struct stay_tenant *tenant, struct stays *ret_stays);

/* Adds what clients declare, which is in no row of a block. Whose counts as above; of all pools. */
void stays_find_declared(struct stays *stays, const struct client_row *clients, uint32_t n_clients,
                         const struct stay_tenant *tenant);

/* How much of what a process holds is in allocations, as its clients report; of blocks of all pools. */
void stays_find_allocated(struct stays *stays, const struct client_row *clients,
                          uint32_t n_clients);

/* Which processes are stopped. */
void stays_find_stopped(struct stays *stays, bool (*is_stopped)(uint32_t pid, uint32_t uid));

void stays_deinit(struct stays *stays);

/* "registered", and a whole sentence without its end. */
const char *stay_name(enum stay_kind kind);
#define STAY_TEXT_MAX 256
void stay_text(const struct stay *stay, char text[static STAY_TEXT_MAX]);
