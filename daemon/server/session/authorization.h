/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenant a client belongs to, and which clients may see and change what concerns all tenants. On the loop. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/server/session/session.h"

/* By what a user's clients are told apart when they connect. */
void authorization_realm(const struct peer *peer, char ret_realm[static POLICY_REALM_MAX]);

/* What a tenant's clients have in common besides the uid. One whose container cannot be read is a tenant of
 * its own: no other client is known to be in the same. But of such, and of containers, a user has so many, and
 * what comes later is one tenant. */
void authorization_find_tenant(struct session *session, struct tenant_key *ret_key);

/* Root and the daemon's own user may see what concerns every tenant, but not from within a container
 * other than the daemon's; where tenants are users, containers make no difference to this. */
bool authorization_sees_all(const struct session *session);

/* Root, and clients on the admin socket, may change what concerns every tenant; likewise. */
bool authorization_may_administer(const struct session *session);

/* Is the process of the asker's tenant, or may the asker know of all? */
bool authorization_shows_process(const struct session *asker, pid_t pid);

/* For texts: "uid 1000", "uid 1000 in 8f2d6a3bc0de". */
#define AUTHORIZATION_TEXT_MAX 64
const char *authorization_tenant_text(const struct tenant_key *key,
                                      char ret_text[static AUTHORIZATION_TEXT_MAX]);
