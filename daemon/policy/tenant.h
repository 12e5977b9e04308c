/* Tenants: who trusts whom. A block belongs to one tenant for life; but one that is made ahead
 * is nobody's until somebody has it (warm.h).
 *
 * A tenant lives while a client or a block refers to it. What it has in a pool is a holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/bins.h"
#include "daemon/policy/limit_table.h"
#include "daemon/policy/passing.h"
#include "daemon/policy/policy.h"
#include "base/table.h"
#include "daemon/policy/totals.h"

struct pool;
struct request;
struct tenant;

/* Somebody of this party waits for a limit. */
struct limited {
        uint64_t walk; /* the one in which that was seen last */
        enum limit_kind kind;
};

struct holding {
        struct tenant *tenant;
        struct pool *pool;
        struct totals totals;
        uint64_t charged; /* to the tenant's clients */
        uint64_t reserved_peak;
        struct bins bins;
        TAILQ_HEAD(holding_blocks, block) cached; /* the one cached first is first */
        struct holding_blocks
                leased; /* that may be idle; leased, or seen in use, longest ago first */
        TAILQ_HEAD(holding_waiting, request) waiting; /* the one that asked first is first */
        uint64_t n_given_bytes;                       /* of new blocks; see line.h */
        uint64_t place; /* these three in a line's walk, and while the tenant waits */
        struct request *next;
        struct passing_hold hold;
        TAILQ_ENTRY(holding) line_link;
        uint64_t robbed_ns; /* when idle leases were last taken for another tenant */
        bool was_robbed;
        uint64_t search;        /* the last one for idle leases to take for another tenant */
        uint64_t n_found_bytes; /* of this one, in it */
};

/* What waits in a queue is looked at whenever the queue is served. */
#define TENANT_MAX_WAITING 1024

/* Of one user. When there are as many, one of whom nothing but cached blocks is left makes room for the next:
 * these go back to the driver. Those who have clients stay; of them account.h lets a user have fewer. */
#define TENANTS_A_USER 1024

struct tenant {
        struct policy *policy;
        struct tenant_key key;
        uint32_t n_refs; /* clients and blocks */
        uint32_t n_holdings;
        uint32_t n_waiting;
        struct usage usage;    /* its clients' */
        struct usage kept;     /* likewise */
        struct usage attached; /* see attached.h */
        uint64_t counted;
        uint64_t listing; /* see client_is_first_listed */
        struct limited limited;
        UT_hash_handle hh;
        struct holding holdings[]; /* one a pool */
};

/* The tenant of this key, made if need be; -ENOMEM. */
int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant);
struct tenant *tenant_ref(struct tenant *tenant);
struct tenant *tenant_unref(struct tenant *tenant);
