/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an existing block that serves a request: a cached one, or one whose lease is idle. */
#pragma once

#include "daemon/policy/state/types.h"

struct scan_budget;

/* A block, now in CACHED, for the request, or NULL. In this order: a block that its client still maps, if
 * the request allows it, and no other if it demands that; the smallest block that is large enough; the
 * largest of the smaller ones that it accepts. Each was cached before, or idle in another client's hands
 * until now. */
struct block *block_search_find(const struct request *request, struct scan_budget *budget);

/* The same block, if it was cached before; else NULL. */
struct block *block_search_find_cached(const struct request *request, struct scan_budget *budget);

/* For a request that a limit holds: a block for which the limit's party is charged already, so that its
 * charge does not grow. BLOCK_SEARCH_OWN: a cached block that the client itself keeps mapped.
 * BLOCK_SEARCH_TENANTS: also such a block of another client of the tenant, or one that is idle in its
 * hands. */
enum block_search_scope { BLOCK_SEARCH_OWN, BLOCK_SEARCH_TENANTS };
struct block *block_search_find_charged(const struct request *request,
                                        enum block_search_scope scope, struct scan_budget *budget);

/* An unowned block that serves the request and exceeds no limit, now cached for the request's tenant. NULL:
 * none. */
struct block *block_search_take_unowned(const struct request *request);
