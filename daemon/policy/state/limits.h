/* SPDX-License-Identifier: Apache-2.0 */
/* The most that clients and tenants may be charged, by kind of limit.
 *
 * A table has one set of limits for every client, one for every tenant, and sets for tenants of certain
 * uids, in their order: each waiting request looks for its own several times, and a site may have thousands. The policy
 * owns the current table; the server builds a new one from the configuration, or changes one limit. Limits of pools
 * are in struct pool. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum limit_kind {
        LIMIT_DEVICE_BYTES, /* charged, over all devices */
        LIMIT_PINNED_BYTES, /* charged, over all nodes */
        LIMIT_LEASES,       /* charged blocks: in leases, being created for one, or lingering */
        LIMIT_N_KINDS,
};

#define LIMIT_NONE    UINT64_MAX
#define LIMIT_INHERIT (UINT64_MAX - 1) /* for a uid: the limit of every tenant applies */

struct limit_set {
        uint64_t max[LIMIT_N_KINDS];
};

struct uid_limits {
        uint32_t uid;
        struct limit_set limits;
};

struct limits {
        struct limit_set client; /* of each client */
        struct limit_set tenant; /* of each tenant without a limit for its uid */
        struct uid_limits *uids; /* the lowest first */
        size_t n_uids;
};

/* A table without limits; -ENOMEM. */
int limits_new(struct limits **ret_table);
struct limits *limits_free(struct limits *table);
void limits_check(const struct limits *table);

/* Sets the limit of a uid's tenants; LIMIT_INHERIT removes it. -ENOMEM changes nothing. */
int limits_set_uid(struct limits *table, uint32_t uid, enum limit_kind kind, uint64_t max);

/* The place of the uid in the table, or n_uids. */
size_t limits_find_uid(const struct limits *table, uint32_t uid);

/* The limit for that uid itself: LIMIT_INHERIT: none is set; LIMIT_NONE: exempt. */
uint64_t limits_own_max(const struct limits *table, uint32_t uid, enum limit_kind kind);

/* The limit that applies to tenants of this uid; LIMIT_NONE: no limit. */
uint64_t limits_tenant_max(const struct limits *table, uint32_t uid, enum limit_kind kind);

/* What one party is charged, in the units of its limits. */
struct usage {
        uint64_t n[LIMIT_N_KINDS];
};

/* Why a request was refused with GPUMEM_E_LIMIT. */
enum limit_scope { LIMIT_OF_CLIENT = 1, LIMIT_OF_TENANT = 2 };
enum limit_case {
        LIMIT_WOULD_BE_PASSED,
        LIMIT_IS_WAITED_FOR, /* older requests under the same limit are served first */
};
struct limit_hit {
        enum limit_scope scope;
        enum limit_kind kind;
        enum limit_case why;
        uint64_t used;
        uint64_t max;
};
