/* SPDX-License-Identifier: Apache-2.0 */
/* Revocation: takes idle leases from their clients. The boards tell which leases are idle.
 *
 * No message tells when a lease becomes idle, so they are searched when a request needs memory. A lease
 * that is in use moves to the end of the list: those at the front have been idle the longest, and the next
 * search begins with others. The number of scans is limited: they take 5 us, or 50 us with cold
 * caches, however many leases there are; later requests scan the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

#define REVOKE_IDLE_SCANS_A_REQUEST 128
#define REVOKE_IDLE_SCANS_A_WALK    2048

/* A tenant's idle leases are not taken for other tenants twice within this time. */
#define REVOKE_IDLE_OTHERS_NS UINT64_C(100000000)

struct bin_range;

/* A block that another client of the tenant took from a client is not taken back for it within this time,
 * while anything else may serve it. Otherwise two clients that use their memory by turns would pass one
 * block to and fro, unmapping and mapping it each time. The 0.3 ms of that so stay below 2 %. A block that
 * both map costs nothing and is exempt, and so is a request at its deadline. */
#define REVOKE_IDLE_BACK_NS UINT64_C(10000000)

/* How many leases a search may still scan, and for which client's request. */
struct scan_budget {
        unsigned n_left;
        const struct client *asker;
        uint64_t request; /* its number in the queue */
        bool goes_on;     /* with what it began in the last part of this walk */
        bool back_too;    /* also blocks that were taken from the asker just now */
};

/* Leases that were idle when they were scanned, the longest idle first. They are used before the policy
 * gets another event, so they do not end meanwhile. */
struct idle_leases {
        struct lease *leases[REVOKE_IDLE_SCANS_A_REQUEST];
        unsigned n;
        uint64_t n_bytes;
};

/* Whether another client's lease of the block is idle, and the client's own limit allows it the block. The
 * tenant is charged for it already. */
bool revoke_idle_is_allowed(const struct block *block, const struct client *client);

/* Revokes the block's lease if it is idle. True: the block is cached now. */
bool revoke_idle_try(struct block *block);

/* Revokes an idle lease of another client of the holding's tenant. Its block, now cached, is the smallest
 * in the range, or the largest. NULL: none was found. */
enum revoke_idle_choice { REVOKE_IDLE_SMALLEST, REVOKE_IDLE_LARGEST };
struct block *revoke_idle_take_one(struct holding *holding, const struct client *asker,
                                   const struct bin_range *range, enum revoke_idle_choice choice,
                                   struct scan_budget *budget);

/* Adds those of the tenant in one pool; of one client only, unless NULL. */
void revoke_idle_add_own(struct idle_leases *idle, struct holding *holding,
                         const struct client *client, struct scan_budget *budget);

/* Removes those whose clients would not unmap them. */
void revoke_idle_drop_kept(struct idle_leases *idle);

/* Adds other tenants' idle leases whose clients would unmap them, until there are n_bytes. No tenant is
 * left with less than the pool's min_bytes in leases. */
void revoke_idle_add_others(struct idle_leases *idle, const struct holding *asker, uint64_t n_bytes,
                            uint64_t now_ns, struct scan_budget *budget);

/* Revokes leases (of one client, or of all: NULL) and releases their blocks, up to n_bytes; returns the
 * bytes. */
uint64_t revoke_idle_release(const struct idle_leases *idle, const struct client *client,
                             uint64_t n_bytes);

/* The same for other tenants' leases; these tenants are then spared for a while, but for the rest of this search. */
void revoke_idle_release_others(const struct idle_leases *idle, uint64_t n_bytes, uint64_t now_ns,
                                const struct scan_budget *budget);

/* A limit stops the request, and idle leases of its own client or tenant count against it: they are revoked
 * and their blocks cached, if that is enough. Blocks that would be kept mapped stay charged, so they do not
 * help. */
bool revoke_idle_relieve(const struct request *request, const struct limit_hit *hit,
                         struct scan_budget *budget);
