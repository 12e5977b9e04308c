/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals in words: what happened and to whom, who holds what, what can be done. An asker reads the names of its own
 * tenant's clients, and of other tenants the sum; root and the daemon's own user read all names. On the loop. */
#pragma once

#include "daemon/policy/policy.h"
#include "daemon/server/session/session.h"

/* Of the tenant's clients the largest so many are named. */
#define REFUSAL_N_NAMED 3

/* Answers a LEASE that was refused. */
void refuse_lease(struct server *server, const struct action *action);
