/* SPDX-License-Identifier: Apache-2.0 */
/* The user that owns tenants: who runs a container decides how many there are, and which uids are in it. So what all
 * users share is divided among owners first, and then among the tenants of each.
 *
 * An owner lives while it has a tenant. */
#pragma once

#include "daemon/policy/state/types.h"

/* The owner of this uid, created if needed; -ENOMEM. One without tenants must get one, or be ended, at once. */
int owner_get(struct policy *policy, uint32_t uid, struct owner **ret_owner);

/* Ends it if it has no tenant. */
void owner_end(struct owner *owner);

void owner_add(struct owner *owner, struct tenant *tenant);
void owner_remove(struct tenant *tenant);

/* A block of the tenant is counted in another way than before. */
void owner_count(const struct holding *holding, const struct totals *before,
                 const struct totals *after);
