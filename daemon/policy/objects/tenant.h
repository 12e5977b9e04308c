/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: groups of clients that trust each other. A block belongs to one tenant for ever, except that a
 * prewarmed block is unowned until a tenant gets it (prewarm.h).
 *
 * A tenant lives while a client or a block refers to it. A holding is its part of one pool. */
#pragma once

#include "daemon/policy/state/types.h"

/* The limit exists because every walk through the queue visits them. */
#define TENANT_MAX_WAITING 1024

/* Tenants of one user. At the limit, a tenant that has nothing but cached blocks makes room for the next
 * one: its blocks go back to the driver. Tenants with clients stay; account.h limits their number to less. */
#define TENANTS_A_USER 1024

/* The tenant of this key, created if needed; -ENOMEM. */
int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant);
struct tenant *tenant_ref(struct tenant *tenant);
struct tenant *tenant_unref(struct tenant *tenant);
