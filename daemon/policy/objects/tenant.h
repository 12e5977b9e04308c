/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: groups of clients that trust each other. A block belongs to one tenant for ever, except that a
 * prewarmed block is unowned until a tenant gets it (prewarm.h).
 *
 * A tenant lives while a client or a block refers to it. A holding is its part of one pool. */
#pragma once

#include "daemon/policy/state/types.h"

/* Requests that may wait, of all tenants together: every walk through a queue visits them, and must take less than a
 * moment. One tenant alone may have half of them, two have a third each, and so on. A group of requests (group.h) is one. */
#define TENANTS_MAX_WAITING 512

/* Places beside them, for the first request of a tenant: halves of what is left are nothing in the end. */
#define TENANTS_FIRST 512

bool tenant_may_wait(const struct tenant *tenant);

/* Tenants of one user. At the limit, a tenant that has nothing but cached blocks makes room for the next
 * one: its blocks go back to the driver. Tenants with clients stay; account.h limits their number to less. */
#define TENANTS_A_USER 1024

/* The tenant of this key, created if needed; -ENOMEM. */
int tenant_get(struct policy *policy, const struct tenant_key *key, struct tenant **ret_tenant);
struct tenant *tenant_ref(struct tenant *tenant);
struct tenant *tenant_unref(struct tenant *tenant);
