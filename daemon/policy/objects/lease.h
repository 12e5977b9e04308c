/* SPDX-License-Identifier: Apache-2.0 */
/* One client's right to one block, from the request on: the lease takes its id and its slot when it
 * is asked for, so that a grant can neither fail nor find every slot taken.
 *
 * Owned by its client; while it may be mapped it also stands in its block's list. A client that
 * still maps a block may be granted it again: both leases stand, each with its own slot, and the
 * block counts as mapped until both are gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* GPUMEM_E_TOO_MANY when the client has no slot left, -ENOMEM. */
int lease_new(struct client *client, uint32_t serial, struct lease **ret_lease);

/* The client does not map the block any more, or never did. */
struct lease *lease_free(struct lease *lease);

/* The client's lease of this id that it was told of, or NULL. */
struct lease *lease_find(struct client *client, uint64_t id);

/* From ASKED: `block` is the client's, and it is to be told. */
void lease_grant(struct lease *lease, struct block *block);

/* From ASKED: a shared block is the client's too, and its caller tells it. */
void lease_attach(struct lease *lease, struct block *block);

/* Whether its word says so at this moment. What is not known to the client is not idle. */
bool lease_is_idle(const struct lease *lease);

/* From BUSY, by one try of its word's step from IDLE: the client has it no more, as after
 * lease_end_use. False: it is in use, and nothing has happened. */
bool lease_revoke(struct lease *lease);

/* Its block goes back to the driver: a client from which it was revoked is told, once. */
void lease_recall(struct lease *lease);

/* From BUSY; the block is still its caller's to return to the cache, to release, or to charge to another lease's client. */
void lease_end_use(struct lease *lease);
