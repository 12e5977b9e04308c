/* SPDX-License-Identifier: Apache-2.0 */
/* The charge owner of a block that is not in use: the client that is charged for it.
 *
 * While it lingers, the client that had it last among those that may still map it. While it is cached, the
 * last one that keeps it mapped, since it makes no room for others as long as that one does, or that gave
 * it back and has not said that it unmapped it: what a client says of itself does not take it off its
 * account. From whom it was revoked is not charged while it is cached: it was not asked to unmap it. */
#pragma once

#include "daemon/policy/state/types.h"

/* The one that is charged if it is cached, or NULL. */
struct client *charge_owner_in_cache(const struct block *block);

/* Charges that client and no other; NULL: none. */
void charge_owner_set(struct block *block, struct client *client, enum charge_kind kind);

/* Charges the client that ought to be, in CACHED, RELEASING and LINGERING. */
void charge_owner_update(struct block *block);
