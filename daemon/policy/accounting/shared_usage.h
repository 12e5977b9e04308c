/* SPDX-License-Identifier: Apache-2.0 */
/* What clients and tenants lease of shared blocks that others are charged for: they would be charged for it if those
 * ended their leases, so nobody attaches more than it could bear then.
 *
 * A block counts once for a client and once for a tenant, at one of their busy leases on it; not for the client that is
 * charged for it, nor for that one's tenant. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

/* A lease on one block more than this it does not get. */
#define LEASES_PER_BLOCK_MAX 1024

/* Of a block in LEASED: counts it anew, after a lease began or the charge was transferred. */
void shared_usage_count(struct block *block);

/* It counts for nobody, until it is counted anew: to be called before one of its busy leases ends. */
void shared_usage_forget(struct block *block);

/* Whether the client, or its tenant, could not bear it if the block came to its charge on top of all else that may. */
bool shared_usage_bars(const struct client *client, const struct block *block);
