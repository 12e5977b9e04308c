/* SPDX-License-Identifier: Apache-2.0 */
/* The charge owner: the client that is charged for a block that is not in use.
 *
 * For a lingering block, it is the last holder among the clients that may still map it. For a cached block,
 * it is the last client that keeps it mapped, or that returned it and has not reported that it unmapped it.
 * A block that stays mapped makes no room for others, so a client's own word does not end the charge. A
 * client from which the block was revoked is not charged while it is cached: it was not asked to unmap it. */
#pragma once

#include "daemon/policy/state/types.h"

/* The client that is charged if the block is cached, or NULL. */
struct client *charge_owner_in_cache(const struct block *block);

/* Charges that client only; NULL: no client. */
void charge_owner_set(struct block *block, struct client *client, enum charge_kind kind);

/* Charges the right client, in CACHED, RELEASING and LINGERING. */
void charge_owner_update(struct block *block);
