/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of blocks, and of tenants' figures in each pool. A list is made in parts (base/numbered.h), between which the
 * policy may change; each call makes one, and returns whether others are left. A callback must not change the
 * policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/numbered.h"
#include "daemon/policy/state/public_types.h"

struct tenant;

enum block_listed {
        BLOCK_IS_LEASED, /* or being created for a request, which counts as leased */
        BLOCK_IS_CACHED,
        BLOCK_IS_LINGERING,
};

struct block_listing {
        uint64_t id;
        uint64_t n_bytes;
        uint32_t pool;
        uint32_t properties;
        enum block_listed state;
        bool is_idle;                 /* leased, and not in use when the walk looked */
        const struct tenant *tenant;  /* of the charged client, or else the block's */
        uint32_t uid;                 /* the tenant's */
        const struct client *charged; /* NULL: no client */
        uint32_t n_holders;           /* busy leases */
        uint64_t lease_id;            /* the latest one that may be mapped; 0: no client maps it */
        uint32_t n_charge_transfers;
        uint64_t made_ns;
        uint64_t since_ns; /* when its state began */
};

/* Of all pools. The walk also sees which leases are idle (policy_next_block). */
bool policy_list_blocks(struct policy *policy, struct numbered_walk *walk,
                        void (*take)(const struct block_listing *block, void *argument),
                        void *argument);

/* The same for blocks that are idle or cached. */
bool policy_list_unused(struct policy *policy, struct numbered_walk *walk,
                        void (*take)(uint32_t pool, uint64_t n_bytes, void *argument),
                        void *argument);

/* A walk through clients or tenants reads what each has in all pools: so many pools are an item more. */
#define LISTING_POOLS_AN_ITEM 4

struct tenant_listing {
        const struct tenant *tenant;
        const struct tenant_key *key;
        uint32_t pool;
        uint64_t leased;
        uint64_t idle; /* part of leased, as it was last seen */
        uint64_t cached;
        uint64_t lingering;
        uint64_t charged;
        uint64_t declared;
        uint64_t reserved_peak;
        uint64_t n_blocks;
        uint64_t n_clients;
        uint64_t n_waiting;
};

/* Lists every chosen tenant (NULL: each) with every pool. Other tenants are not visited. */
bool policy_list_tenants(const struct policy *policy, struct numbered_walk *walk,
                         bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                         void (*take)(const struct tenant_listing *tenant, void *argument),
                         void *argument);

/* The number of clients that are charged in a pool, and their sum: of one tenant, or of all (NULL). */
struct holder_sums {
        uint64_t n_clients;
        uint64_t n_bytes;
};
struct holder_sums policy_sum_holders(const struct policy *policy, uint32_t pool,
                                      const struct tenant *tenant);

/* Lists at most n_max of these clients: a client comes before those that are charged less than half as much. Keepers
 * (kept_shares.h) are left out. */
void policy_list_holders(const struct policy *policy, uint32_t pool, const struct tenant *tenant,
                         unsigned n_max, void (*take)(const struct client *client, void *argument),
                         void *argument);

/* Adds the bytes of chosen tenants' blocks for which a client of a tenant that is not chosen is charged, because it
 * has attached them. */
bool policy_charged_to_others(const struct policy *policy, struct numbered_walk *walk,
                              bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                              const void *argument, uint64_t *n_bytes);

/* Never given again. */
uint64_t client_number(const struct client *client);

const struct tenant *client_tenant(const struct client *client);
const struct tenant_key *client_tenant_key(const struct client *client);

/* Given again when the tenant is gone. */
uint32_t tenant_number(const struct tenant *tenant);

/* Bytes of blocks in its leases for which another client is charged. */
uint64_t client_attached(const struct client *client, uint32_t pool);

uint64_t client_declared(const struct client *client, uint32_t pool);

/* The client's unanswered requests for this pool. */
uint64_t client_waiting(const struct client *client, uint32_t pool);
