/* SPDX-License-Identifier: Apache-2.0 */
/* Shared usage: shared blocks that clients and tenants lease while another client is charged. If that
 * client's lease ends, they are charged, so no client may attach more than its limits could then bear.
 *
 * A block counts once for a client and once for a tenant, at one of their busy leases. It does not count
 * for the client that is charged for it, nor for that client's tenant. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

/* A block has at most this many leases. */
#define LEASES_PER_BLOCK_MAX 1024

/* For a block in LEASED: counts it again, after a lease began or the charge was transferred. */
void shared_usage_count(struct block *block);

/* A busy lease is about to end: if the block counts at it, it does not any more. Returns whether the block must be counted
 * again afterwards. Most leases of a block do not count, and it may have a thousand. */
bool shared_usage_forget(struct lease *lease);

/* Whether the client or its tenant could not bear the charge of the block on top of all others that it may
 * have to bear. */
bool shared_usage_bars(const struct client *client, const struct block *block);
