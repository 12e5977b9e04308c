/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the existing blocks for one that serves a request: a cached one, or one whose lease is idle. */
#pragma once

#include "daemon/policy/state/types.h"

struct scan_budget;

/* A block in CACHED that the request is to be granted, or NULL. In this order: one that its client maps already, if it
 * said that this will do, and none else if it said so; one that is large enough, the smallest; a smaller one that it
 * takes, the largest. Each cached before it was looked for, or else idle in another client's hands until now. */
struct block *block_search_find(const struct request *request, struct scan_budget *budget);

/* For a request that a limit holds: a block that the limit's party is charged for already, so that it is charged no
 * more than before. BLOCK_SEARCH_OWN: the client's own, one that is cached and that it keeps mapped.
 * BLOCK_SEARCH_TENANTS: also such a one of another client of the tenant, or one that is idle in its hands. */
enum block_search_scope { BLOCK_SEARCH_OWN, BLOCK_SEARCH_TENANTS };
struct block *block_search_find_charged(const struct request *request,
                                        enum block_search_scope scope, struct scan_budget *budget);

/* An unowned block that serves the request and passes no limit; it is cached for the request's tenant now. NULL:
 * none. */
struct block *block_search_take_unowned(const struct request *request);
