/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a resource: how much one user takes of what the daemon has for all users (connections, data waiting to be
 * sent or received), one tenant of its user's, and one process of its tenant's.
 *
 * A user may take more while it has less than what is left for others. One alone gets half, two that take by turns a
 * third each. The same holds for a tenant and its user's share, and for a process and its tenant's: one tenant alone gets
 * a third of all, one process alone a quarter. Each has an absolute maximum, too. A container that root runs counts as a
 * user (users.h).
 *
 * So each user halves what the next one finds, and a dozen of them, one after the other, would leave nothing. Therefore
 * a part of all is kept: only a user that has no more than `least` with it may take of it. All together have at most
 * max - kept, and `least` for each user that has any. So a user that has nothing finds `least` whatever the others do,
 * while `kept` holds that much for each user.
 *
 * A due records what an object has taken; ending the due gives it back. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum allowance_kind {
        ALLOWANCE_CONNECTIONS,
        ALLOWANCE_IN_FLIGHT,    /* fds sent, and perhaps not yet received */
        ALLOWANCE_QUEUED_FDS,   /* the daemon's fds that wait to be sent */
        ALLOWANCE_QUEUED_BYTES, /* of frames that wait to be sent */
        ALLOWANCE_N_KINDS,
};

/* What all users have together. `each` is the maximum of a user without tenants, of a tenant, and of
 * a process. */
struct allowances {
        uint64_t n[ALLOWANCE_N_KINDS];
        uint64_t max[ALLOWANCE_N_KINDS];
        uint64_t kept[ALLOWANCE_N_KINDS]; /* of max, for users that have no more than `least` */
        uint64_t least[ALLOWANCE_N_KINDS];
        uint64_t max_each[ALLOWANCE_N_KINDS];
        uint64_t max_tenants[ALLOWANCE_N_KINDS]; /* of a user's tenants together */
};

struct allowance {
        struct allowances *all;
        struct allowance *
                parent; /* of which this is a part; NULL: this is a user, or a container that root runs */
        bool has_tenants; /* it is a user whose tenants have shares of their own */
        uint64_t n[ALLOWANCE_N_KINDS];
};

struct due {
        struct allowance *allowance; /* NULL: nothing was taken */
        enum allowance_kind kind;
        uint64_t n;
};

#define DUE_NULL ((struct due){.n = 0})

bool allowance_fits(const struct allowance *allowance, enum allowance_kind kind, uint64_t n);

/* Nothing of any kind is taken, so the owner may free it. */
bool allowance_is_unused(const struct allowance *allowance);

/* GPUMEM_E_TOO_MANY if it does not fit. */
int due_begin(struct due *due, struct allowance *allowance, enum allowance_kind kind, uint64_t n);

/* Changes the amount of a resource that has already been taken or given back. */
void due_grow(struct due *due, uint64_t n);
void due_shrink(struct due *due, uint64_t n);

/* Also legal if nothing was taken. */
void due_end(struct due *due);
