/* SPDX-License-Identifier: Apache-2.0 */
/* Answers refused LEASEs with their facts: why the request failed, who holds the memory, and what can be done.
 * proto/refusal_text.h makes the text of them, when a person or a program asks; on the loop only for the log, and for
 * clients that do not know facts. The asker is told the names of its own tenant's clients, and the sum of other
 * tenants. Root and the daemon's own user are told all names. On the loop. */
#pragma once

#include "daemon/policy/policy.h"
#include "daemon/server/session/session.h"

/* A refusal names so many of the tenant's clients, the largest of the REFUSAL_N_LOOKS that are charged most. If more
 * clients hold about the same, within a factor of two, an arbitrary part of them is looked at. */
#define REFUSAL_N_NAMED 3
#define REFUSAL_N_LOOKS 16

/* Leases that are scanned for idle ones, those that were idle the longest first. */
#define REFUSAL_N_IDLE_LOOKS 64

/* Answers a refused LEASE. */
void refuse_lease(struct server *server, const struct action *action);
