/* SPDX-License-Identifier: Apache-2.0 */
/* An owner decides how many tenants there are: the user that runs containers; or, since root runs those of many people,
 * each container that root runs, which may have any number of uids. What all share is divided among owners first,
 * and then among the tenants of each. The key of a user has no realm.
 *
 * An owner lives while it has a tenant. */
#pragma once

#include "daemon/policy/state/types.h"

/* The owner of this key, created if needed; -ENOMEM. One without tenants must get one, or be ended, at once. */
int owner_get(struct policy *policy, const struct tenant_key *key, struct owner **ret_owner);

/* Ends it if it has no tenant. */
void owner_end(struct owner *owner);

void owner_add(struct owner *owner, struct tenant *tenant);
void owner_remove(struct tenant *tenant);

/* A block of the holding is counted in another way than before, in its totals already. */
void owner_count(struct holding *holding, const struct totals *before, const struct totals *after);
