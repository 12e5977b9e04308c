/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenant a client belongs to, and which clients may see and change what concerns all tenants. On the loop. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/server/session/session.h"

/* The text that tells a user's tenants apart, from the peer's container when it connects. */
void authorization_realm(const struct peer *peer, char ret_realm[static POLICY_REALM_MAX]);

/* The user that pays for the peer: its own, or the one that owns the container in which it is. */
uint32_t authorization_payer(const struct server *server, const struct peer *peer);

/* Finds the key of the client's tenant. A client whose container cannot be read is a tenant of its own,
 * since no other client is known to share the container. The number of such tenants, and of containers, is
 * limited for each user; clients beyond it share one tenant. */
void authorization_find_tenant(struct session *session, struct tenant_key *ret_key);

/* Finds the key of the tenant's owner (daemon/policy/objects/owner.h): the user that pays, or the container that root
 * runs. */
void authorization_find_owner(const struct session *session, struct tenant_key *ret_key);

/* Root and the daemon's own user may see what concerns every tenant, but not from a container other than
 * the daemon's. Where tenants are users, containers do not matter. */
bool authorization_sees_all(const struct session *session);

/* Root and clients on the admin socket may change what concerns every tenant, with the same restriction. */
bool authorization_may_administer(const struct session *session);

/* Either of these: what it asks for is bounded by itself, not with what users ask for. */
bool authorization_is_operator(const struct session *session);

/* Whether the asker may know of the process: it is of the asker's tenant, or the asker sees all. */
bool authorization_shows_process(const struct session *asker, pid_t pid,
                                 const struct process_facts *facts);
