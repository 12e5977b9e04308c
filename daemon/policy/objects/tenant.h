/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: who trusts whom. A block belongs to one tenant for life; but one that is prewarmed
 * is unowned until a tenant has it (prewarm.h).
 *
 * A tenant lives while a client or a block refers to it. What it has in a pool is a holding. */
#pragma once

#include "daemon/policy/state/types.h"

/* What waits in a queue is looked at whenever the queue is served. */
#define TENANT_MAX_WAITING 1024

/* Of one user. When there are as many, one of whom nothing but cached blocks is left makes room for the next:
 * these go back to the driver. Those who have clients stay; of them account.h lets a user have fewer. */
#define TENANTS_A_USER 1024

/* The tenant of this key, made if need be; -ENOMEM. */
int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant);
struct tenant *tenant_ref(struct tenant *tenant);
struct tenant *tenant_unref(struct tenant *tenant);
