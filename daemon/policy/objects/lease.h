/* SPDX-License-Identifier: Apache-2.0 */
/* One client's right to one block, from its request on. The lease gets its id and its slot with the
 * request, so that a grant cannot fail.
 *
 * Owned by its client; while the block may be mapped the lease is also in the block's list. A client that
 * still maps a block may be granted it again: both leases exist, each with its own slot, and the block
 * counts as mapped until both are gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* GPUMEM_E_TOO_MANY if the client has no free slot, -ENOMEM. */
int lease_new(struct client *client, uint32_t serial, struct lease **ret_lease);

/* The client does not map the block any more, or never did. */
struct lease *lease_free(struct lease *lease);

/* The lease with this id, if the client was told of it, or NULL. */
struct lease *lease_find(struct client *client, uint64_t id);

/* From ASKED: gives `block` to the client and queues the grant. */
void lease_grant(struct lease *lease, struct block *block);

/* From ASKED: gives a shared block to the client, too. The caller tells the client, and counts the block
 * (shared_usage.h). */
void lease_attach(struct lease *lease, struct block *block);

/* Whether the board's word says so now. A lease that the client was not told of is not idle. */
bool lease_is_idle(const struct lease *lease);

/* From BUSY: tries once to change the word from IDLE. On success the client has lost the lease, as after
 * lease_end_use. False: the lease is in use, and nothing has changed. */
bool lease_revoke(struct lease *lease);

/* Its block goes back to the driver: tells a client from which it was revoked, once, to unmap it. */
void lease_recall(struct lease *lease);

/* From BUSY: ends the use. The caller must then cache the block, release it, or charge it to another
 * lease's client. */
void lease_end_use(struct lease *lease);
