/* SPDX-License-Identifier: Apache-2.0 */
/* What one user takes of what the daemon has for all: connections, and what waits to be sent or received; and
 * what one tenant takes of its user's.
 *
 * A user may have more as long as it has less than what is left for others: one alone gets half, two get a
 * third each, and somebody who comes later finds something. So may a tenant, of what its user may have: one
 * alone gets a third of all. There
 * is a most for each, too. What is taken stands as a due in the object that causes it; ending that gives
 * it back. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum allowance_kind {
        ALLOWANCE_CONNECTIONS,
        ALLOWANCE_IN_FLIGHT,    /* fds sent and perhaps not yet received */
        ALLOWANCE_QUEUED_FDS,   /* fds of the daemon's that wait to be sent */
        ALLOWANCE_QUEUED_BYTES, /* of frames that wait to be sent */
        ALLOWANCE_N_KINDS,
};

/* Of all users together; they differ in nothing but what they have. A user with tenants is no `each`. */
struct allowances {
        uint64_t n[ALLOWANCE_N_KINDS];
        uint64_t max[ALLOWANCE_N_KINDS];
        uint64_t max_each[ALLOWANCE_N_KINDS];
        uint64_t max_user[ALLOWANCE_N_KINDS]; /* of a user's tenants together */
};

struct allowance {
        struct allowances *all;
        struct allowance *user; /* whose tenant this is; NULL: a user, who has no tenants */
        uint64_t n[ALLOWANCE_N_KINDS];
};

struct due {
        struct allowance *allowance; /* NULL: nothing was taken */
        enum allowance_kind kind;
        uint64_t n;
};

#define DUE_NULL ((struct due){.n = 0})

bool allowance_fits(const struct allowance *allowance, enum allowance_kind kind, uint64_t n);

/* Nothing left of any kind: whoever it stands in may go. */
bool allowance_is_unused(const struct allowance *allowance);

/* GPUMEM_E_TOO_MANY when it does not fit. */
int due_begin(struct due *due, struct allowance *allowance, enum allowance_kind kind, uint64_t n);

/* More or less of what it is about, which has been taken or given back already. */
void due_grow(struct due *due, uint64_t n);
void due_shrink(struct due *due, uint64_t n);

/* Legal also when nothing was taken. */
void due_end(struct due *due);
