/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy tells of its objects and in sums; the objects one by one are in listing.h. Nothing here changes what
 * anybody gets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

void *client_owner(const struct client *client);
uint64_t lease_id(const struct lease *lease);
uint32_t lease_slot(const struct lease *lease);
struct block *lease_block(const struct lease *lease); /* of a lease that was granted */
uint64_t block_id(const struct block *block);
uint32_t block_pool(const struct block *block);
uint64_t block_bytes(const struct block *block);
uint32_t block_properties(const struct block *block);
void *block_backing(const struct block *block);

/* Of a block that is being made: whether whoever asked for it still waits. If not, it may as well not be made:
 * policy_created() with -ECANCELED. */
bool block_is_awaited(const struct block *block);

/* Of a block that is being released: whether a process whose client has ended may use what is in it still. Who has
 * given it back, or was revoked it, does not, be it mapped there or not. */
bool block_may_be_used(const struct block *block);

/* Whether the block was prewarmed, and no tenant has had it yet. */
bool block_is_unowned(const struct block *block);

/* One pool's statistics, in bytes where not said otherwise. */
struct pool_stats {
        uint64_t max;
        uint64_t leased;
        uint64_t cached;
        uint64_t lingering;
        uint64_t
                timed_out; /* lingering, mapped, and not unmapped for a second: see unmap_timeout.h */
        uint64_t unresponsive; /* of that, what a client was told to unmap that could answer */
        uint64_t reserved;     /* leased + cached + lingering */
        uint64_t reserved_peak;
        uint64_t charged; /* to clients: leased, lingering that a client may still map, cached that
                           * one keeps mapped, declared */
        uint64_t declared;
        uint64_t n_blocks;
        uint64_t n_leases;  /* busy or idle; several of a shared block */
        uint64_t n_waiting; /* requests */
        uint64_t n_grants_from_cache;
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_revocations;
        uint64_t n_known_grants;
        uint64_t n_notices;
};

/* GPUMEM_E_NO_POOL for an unknown pool. */
int policy_pool_stats(const struct policy *policy, uint32_t pool, struct pool_stats *ret_stats);

/* Looks at every word of every lease, once: what is told of idle leases from now on is of this moment, so that sums
 * agree. Returns how many there are. */
uint64_t policy_see_idle(struct policy *policy);

/* The same for at most n_max leases of one pool: those that were not used for longest. The others stay as they were
 * seen last. */
void policy_see_some_idle(struct policy *policy, uint32_t pool, unsigned n_max);

/* Bytes of the pool's leases that were idle when they were seen last, and have not ended since. */
uint64_t policy_idle_bytes(const struct policy *policy, uint32_t pool);

/* What the client is charged in a pool, in bytes. */
uint64_t client_charged(const struct client *client, uint32_t pool);

/* Of that what lingers, and the client has not unmapped within the timeout though it was told to. */
uint64_t client_unresponsive(const struct client *client, uint32_t pool);

/* May a block be mapped by this client: one that it leases, has given back, was released, or is an earlier daemon's? */
bool client_maps_anything(const struct client *client);

/* Blocks of all pools together for which the daemon has a file open, or will; see fd_budget.h. */
uint64_t policy_open_blocks(const struct policy *policy);

/* What the client, and what its tenant with it, is charged over all pools. */
const struct usage *client_usage(const struct client *client);
const struct usage *client_tenant_usage(const struct client *client);

/* How much of that is cached, but kept mapped. */
const struct usage *client_kept(const struct client *client);
const struct usage *client_tenant_kept(const struct client *client);

/* Peaks of what is reserved begin anew at what is: the client's tenant's; or everybody's, and the pool's own. Of one
 * pool, or of POLICY_ALL_POOLS. GPUMEM_E_NO_POOL. */
int policy_reset_peaks(struct policy *policy, const struct client *client, enum policy_scope scope,
                       uint32_t pool);
