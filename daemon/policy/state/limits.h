/* SPDX-License-Identifier: Apache-2.0 */
/* What clients and tenants may be charged at most, by kind of limit.
 *
 * A table has one set of limits for every client, one for every tenant, and sets of their own for
 * tenants that are named by uid. The policy owns the table in force; the server builds a new one
 * from the configuration, or changes one limit of it. Pools' limits stand with the pools. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum limit_kind {
        LIMIT_DEVICE_BYTES, /* charged, over all devices */
        LIMIT_PINNED_BYTES, /* charged, over all nodes */
        LIMIT_LEASES,       /* charged blocks: in leases, being made for one, or lingering */
        LIMIT_N_KINDS,
};

#define LIMIT_NONE    UINT64_MAX
#define LIMIT_INHERIT (UINT64_MAX - 1) /* of a named tenant: as for every tenant */

struct limit_set {
        uint64_t max[LIMIT_N_KINDS];
};

struct uid_limits {
        uint32_t uid;
        struct limit_set limits;
};

struct limits {
        struct limit_set client; /* each client's */
        struct limit_set tenant; /* each tenant's, where it has none of its own */
        struct uid_limits *uids;
        size_t n_uids;
};

/* A table without any limit; -ENOMEM. */
int limits_new(struct limits **ret_table);
struct limits *limits_free(struct limits *table);

/* A named tenant's own limit; LIMIT_INHERIT takes it back. -ENOMEM changes nothing. */
int limits_set_uid(struct limits *table, uint32_t uid, enum limit_kind kind, uint64_t max);

/* What this tenant has of its own: LIMIT_INHERIT for nothing, LIMIT_NONE for an exemption. */
uint64_t limits_own_max(const struct limits *table, uint32_t uid, enum limit_kind kind);

/* The limit that binds the tenant of this uid; LIMIT_NONE for none. */
uint64_t limits_tenant_max(const struct limits *table, uint32_t uid, enum limit_kind kind);

/* What one party is charged, in the units of its limits. */
struct usage {
        uint64_t n[LIMIT_N_KINDS];
};

/* Why a request was refused with GPUMEM_E_LIMIT. */
enum limit_scope { LIMIT_OF_CLIENT = 1, LIMIT_OF_TENANT = 2 };
enum limit_case {
        LIMIT_WOULD_BE_PASSED,
        LIMIT_IS_WAITED_FOR, /* older requests under the same limit have the first claim */
};
struct limit_hit {
        enum limit_scope scope;
        enum limit_kind kind;
        enum limit_case why;
        uint64_t used;
        uint64_t max;
};
