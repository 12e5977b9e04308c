/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy reports of its objects and in sums; lists of objects are in listing.h. Nothing here
 * changes the state that decisions depend on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/numbered.h"
#include "daemon/policy/state/public_types.h"

void *client_owner(const struct client *client);
uint64_t lease_id(const struct lease *lease);
uint32_t lease_slot(const struct lease *lease);
struct block *lease_block(const struct lease *lease); /* of a granted lease */
uint64_t block_id(const struct block *block);
uint32_t block_pool(const struct block *block);
uint64_t block_bytes(const struct block *block);
uint32_t block_properties(const struct block *block);
void *block_backing(const struct block *block);

/* Of a block that is being created: whether the client that asked for it still waits. If not, its creation
 * may be cancelled: policy_created() with -ECANCELED. */
bool block_is_awaited(const struct block *block);

/* Of a block that is being released: whether the process of an ended client may still use its contents. A
 * client that returned the block, or from which it was revoked, does not, even if it is mapped there. */
bool block_may_be_used(const struct block *block);

/* Whether the block was prewarmed, and no tenant has had it yet. */
bool block_is_unowned(const struct block *block);

/* One pool's statistics, in bytes unless the name begins with n_. */
struct pool_stats {
        uint64_t max;
        uint64_t leased;
        uint64_t registered; /* part of it, which is never idle */
        uint64_t cached;
        uint64_t lingering;
        uint64_t
                timed_out; /* lingering, mapped, and not unmapped for a second: see unmap_timeout.h */
        uint64_t
                returning; /* lingering, and expected back soon: no client is late to unmap it, or keeps
                             * it mapped, and the driver takes it */
        uint64_t unresponsive; /* part of it: a client was told to unmap it, and could answer */
        uint64_t reserved;     /* leased + cached + lingering */
        uint64_t reserved_peak;
        uint64_t leased_peak;
        uint64_t cached_peak;
        uint64_t charged; /* to clients: leased, lingering and possibly mapped, cached and kept
                           * mapped, declared */
        uint64_t declared;
        uint64_t n_blocks;
        uint64_t n_leases;  /* busy or idle; a shared block has several */
        uint64_t n_waiting; /* requests */
        uint64_t n_grants_from_cache;
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_revocations;
        uint64_t n_known_grants;
        uint64_t n_notices;
        uint64_t n_aged; /* blocks; see daemon/policy/aging.h */
};

/* GPUMEM_E_NO_POOL for an unknown pool. */
int policy_pool_stats(const struct policy *policy, uint32_t pool, struct pool_stats *ret_stats);

/* The next block of one part of all blocks; NULL: the part is over. Reads the board's word of its lease: the idle leases
 * in statistics are as they were last seen. */
struct block *policy_next_block(struct policy *policy, struct numbered_walk *walk);

/* Changes of blocks' states and of clients, so far: if the number is still the same, blocks' states and sizes in lists
 * that were made in between are of one moment. What clients report or mark idle may change without it. */
uint64_t policy_n_changes(const struct policy *policy);

/* The same for at most n_max leases of one pool, those that were idle the longest first. The others stay as they were
 * last seen. */
void policy_see_some_idle(struct policy *policy, uint32_t pool, unsigned n_max);

/* Bytes of the pool's leases that were idle when they were seen last, and have not ended since. */
uint64_t policy_idle_bytes(const struct policy *policy, uint32_t pool);

/* What the client is charged in a pool, in bytes. */
uint64_t client_charged(const struct client *client, uint32_t pool);

/* What that reads comes into the CPU's cache meanwhile, for all pools. */
void client_prefetch_charges(const struct client *client);

/* Lingering bytes of that, which the client was told to unmap and has not within the timeout. */
uint64_t client_unresponsive(const struct client *client, uint32_t pool);

/* Whether the client may map any block: one that it leases, has returned, or had when it was released, or
 * one of an earlier daemon. */
bool client_maps_anything(const struct client *client);

/* Blocks of all pools for which the daemon has a file open, or will have; see fd_budget.h. */
uint64_t policy_open_blocks(const struct policy *policy);

/* Charges over all pools: of the client, and of its whole tenant. */
const struct usage *client_usage(const struct client *client);
const struct usage *client_tenant_usage(const struct client *client);

/* The part of that which is cached but kept mapped. */
const struct usage *client_kept(const struct client *client);
const struct usage *client_tenant_kept(const struct client *client);

/* Sets the peaks to the present values: those of the client's tenant, or those of all tenants and the pool. For one
 * pool, or POLICY_ALL_POOLS. GPUMEM_E_NO_POOL. */
int policy_reset_peaks(struct policy *policy, const struct client *client, enum policy_scope scope,
                       uint32_t pool);
