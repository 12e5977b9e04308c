/* SPDX-License-Identifier: Apache-2.0 */
/* Revocation: takes idle leases from their clients. Which leases are idle is read from the boards.
 *
 * Nobody says when a lease becomes idle, so they are looked for when somebody is in want. What is seen in use goes to
 * the end of the list that is searched: the ones at the front have been idle for longest, and the next search begins
 * with others. That bounds a search: so many scans take some 10 us, or 100 with cold caches, however many leases there
 * are, and the next requests see the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

#define REVOKE_IDLE_SCANS_A_REQUEST 256
#define REVOKE_IDLE_SCANS_A_WALK    2048

/* A tenant's idle leases are not taken for others twice within this time. */
#define REVOKE_IDLE_OTHERS_NS UINT64_C(100000000)

struct bin_range;

/* What another client of its tenant took from a client is not taken back for this one within this time, while anything
 * else may serve it: two that use their memory in turns do not pass one block to and fro, unmapping and mapping it,
 * whenever somebody looks. So the 0.3 ms that it costs stay below 2 %. One that both map costs nothing, and is no
 * matter of this; who is out of time takes it all the same. */
#define REVOKE_IDLE_BACK_NS UINT64_C(10000000)

/* How many leases a search may still scan, and for which client. */
struct scan_budget {
        unsigned n_left;
        const struct client *asker;
        bool back_too; /* also what was taken from the asker just now */
};

/* Some leases that were idle when they were looked at, longest ago first. They are found again before anything else is
 * told to the policy: they do not end meanwhile. */
struct idle_leases {
        struct lease *leases[REVOKE_IDLE_SCANS_A_REQUEST];
        unsigned n;
        uint64_t n_bytes;
};

/* Whether the block's lease is idle in another client's hands, and the client's own limit allows it the block. The
 * tenant is charged for it already. */
bool revoke_idle_is_allowed(const struct block *block, const struct client *client);

/* Revokes the block's lease if it is idle. True if the block is cached now. */
bool revoke_idle_try(struct block *block);

/* Revokes an idle lease of another client of the holding's tenant: its block, which is cached now, is the smallest in
 * the range; or the largest. NULL: none was found. */
enum revoke_idle_choice { REVOKE_IDLE_SMALLEST, REVOKE_IDLE_LARGEST };
struct block *revoke_idle_take_one(struct holding *holding, const struct client *asker,
                                   const struct bin_range *range, enum revoke_idle_choice choice,
                                   struct scan_budget *budget);

/* Adds those of the tenant in one pool; of one client only, or NULL. */
void revoke_idle_add_own(struct idle_leases *idle, struct holding *holding,
                         const struct client *client, struct scan_budget *budget);

/* Forgets those whose clients would not unmap them. */
void revoke_idle_drop_kept(struct idle_leases *idle);

/* Adds those of other tenants that these would unmap, until there are n_bytes; none that would leave a tenant less in
 * leases than the pool's min_bytes. */
void revoke_idle_add_others(struct idle_leases *idle, const struct holding *asker, uint64_t n_bytes,
                            uint64_t now_ns, struct scan_budget *budget);

/* Revokes leases (of one client, or of all: NULL) and releases their blocks until it was n_bytes; returns how many. */
uint64_t revoke_idle_release(const struct idle_leases *idle, const struct client *client,
                             uint64_t n_bytes);

/* The same with those of other tenants, who are spared for a while then. */
void revoke_idle_release_others(const struct idle_leases *idle, uint64_t n_bytes, uint64_t now_ns);

/* A limit is in the way of the request that idle leases of its own side are charged against: they are revoked and their
 * blocks cached, if that is enough. Those that would be kept mapped are charged as before then: they are no help. */
bool revoke_idle_relieve(const struct request *request, const struct limit_hit *hit,
                         struct scan_budget *budget);
