/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, one by one: blocks, and what tenants have in each pool. For listings, and read
 * only: a callback changes nothing in the policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

struct tenant;

enum block_listed {
        BLOCK_IS_LEASED, /* or being made for a request: it counts as leased */
        BLOCK_IS_CACHED,
        BLOCK_IS_LINGERING,
};

struct block_listing {
        uint64_t id;
        uint64_t n_bytes;
        uint32_t pool;
        uint32_t properties;
        enum block_listed state;
        bool is_idle; /* leased, and not used when policy_see_idle looked */
        const struct tenant *tenant;
        uint32_t uid;                 /* the tenant's */
        const struct client *charged; /* NULL: nobody */
        uint32_t n_holders;           /* leases in use */
        uint64_t lease_id;            /* the last one, while it may be mapped; 0: none */
        uint32_t n_charge_transfers;
        uint64_t made_ns;
        uint64_t since_ns; /* in its state */
};

/* In the order of making, latest first. */
void policy_list_blocks(const struct policy *policy, uint32_t pool,
                        void (*take)(const struct block_listing *block, void *argument),
                        void *argument);

struct tenant_listing {
        const struct tenant *tenant;
        const struct tenant_key *key;
        uint32_t pool;
        uint64_t leased;
        uint64_t idle; /* part of leased, as policy_see_idle saw it */
        uint64_t cached;
        uint64_t lingering;
        uint64_t charged;
        uint64_t declared;
        uint64_t reserved_peak;
        uint64_t n_blocks;
        uint64_t n_clients;
        uint64_t n_waiting;
};

/* Every tenant that is chosen (NULL: each), with every pool; the others are not looked at. */
void policy_list_tenants(const struct policy *policy,
                         bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                         void (*take)(const struct tenant_listing *tenant, void *argument),
                         void *argument);

/* How many clients are charged in a pool, and how much together: of one tenant, or (NULL) of all. */
struct holder_sums {
        uint64_t n_clients;
        uint64_t n_bytes;
};
struct holder_sums policy_sum_holders(const struct policy *policy, uint32_t pool,
                                      const struct tenant *tenant);

/* At most n_max of these clients: a client comes before those that are charged less than half as much. The daemon's own
 * clients, which keep what a sharer left, are passed over. */
void policy_list_holders(const struct policy *policy, uint32_t pool, const struct tenant *tenant,
                         unsigned n_max, void (*take)(const struct client *client, void *argument),
                         void *argument);

/* Of blocks of tenants that are chosen those that a client of another tenant is charged for, who has attached
 * them, and which is not chosen. */
uint64_t policy_charged_to_others(const struct policy *policy,
                                  bool (*is_chosen)(const struct tenant_key *key,
                                                    const void *argument),
                                  const void *argument);

const struct tenant *client_tenant(const struct client *client);
const struct tenant_key *client_tenant_key(const struct client *client);

/* Whether no client of the same tenant was asked for with this number before, which is another one for each
 * listing, and not 0. */
bool client_is_first_listed(struct client *client, uint64_t listing);

/* Of blocks in its leases those that another client is charged for. */
uint64_t client_attached(const struct client *client, uint32_t pool);

uint64_t client_declared(const struct client *client, uint32_t pool);

/* The client's requests for this pool that have no answer yet. */
uint64_t client_waiting(const struct client *client, uint32_t pool);
