/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals in words: what happened and to whom, who holds what, what can be done. An asker reads the names of its own
 * tenant's clients, and of other tenants the sum; root and the daemon's own user read all names. On the loop. */
#pragma once

#include "daemon/policy/policy.h"
#include "daemon/server/session/session.h"

/* Of the tenant's clients the largest so many are named: of so many that are charged most. Where more of them hold
 * about the same, within a factor of two, those that are looked at are arbitrary ones. */
#define REFUSAL_N_NAMED 3
#define REFUSAL_N_LOOKS 16

/* Of leases, those that were not used for longest, so many are looked at to find idle ones. */
#define REFUSAL_N_IDLE_LOOKS 64

/* Answers a LEASE that was refused. */
void refuse_lease(struct server *server, const struct action *action);
