/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: groups of clients that trust each other. A block belongs to one tenant for ever, except that a
 * prewarmed block is unowned until a tenant gets it (prewarm.h).
 *
 * A tenant lives while a client or a block refers to it. A holding is its part of one pool. */
#pragma once

#include "daemon/policy/state/types.h"

/* Requests that may wait, of all tenants together: every walk through a queue visits them, and must take less than a
 * moment. One tenant alone may have half of them, two of two owners have a third each, and so on; all tenants of one
 * owner have two thirds. A group of requests (request_group.h) is one, until its parts' blocks are made. */
#define TENANTS_MAX_WAITING 512

/* Places beside them, for the first request of a tenant: parts of what is left are nothing in the end. Half of them are
 * for owners of which no request waits. Of the other half an owner's tenants may take more while they have less than
 * what is left of it: any user can have many tenants. */
#define TENANTS_FIRST 512

bool tenant_may_wait(const struct tenant *tenant);

/* Whether a group's parts may wait in its place, each for its block. They wait for the driver only, but each is in the
 * queue. An owner of which no request has a block made may always have one group made: it waits for no other user. */
bool tenant_may_part(const struct tenant *tenant, uint32_t n_parts);

/* A request of the tenant enters a queue, or leaves it. */
void tenant_begin_wait(struct tenant *tenant);
void tenant_end_wait(struct tenant *tenant);

/* Tenants of one owner. From the limit on, a tenant that has nothing but cached blocks makes room for the next one: so
 * many of its blocks go back to the driver each time. So many are looked at for one, in turn. Tenants with clients stay;
 * connections limit their number. */
#define TENANTS_AN_OWNER      1024
#define TENANTS_BLOCKS_A_TIME 64
#define TENANTS_LOOKS_A_TIME  16

/* The tenant of this key, created for this owner if needed; -ENOMEM. */
int tenant_get(struct policy *policy, const struct tenant_key *key,
               const struct tenant_key *owner_key, struct tenant **ret_tenant);
struct tenant *tenant_ref(struct tenant *tenant);
struct tenant *tenant_unref(struct tenant *tenant);
