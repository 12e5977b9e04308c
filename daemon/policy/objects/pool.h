/* SPDX-License-Identifier: Apache-2.0 */
/* One pool: its limit, its blocks, who waits for them. Owns neither: blocks belong to tenants,
 * requests to clients; they take themselves off these lists. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

int pool_new(struct policy *policy, uint32_t id, const struct policy_pool *settings,
             struct pool **ret_pool);
struct pool *pool_free(struct pool *pool);

/* What may be made at once. */
uint64_t pool_room(const struct pool *pool);

/* What the pool would have above its limit, which was lowered, once all that comes for certain has
 * come: nothing is made before others have brought that back. */
uint64_t pool_debt(const struct pool *pool);

/* The same without what is being released: while there is some, nothing is kept in the cache. */
uint64_t pool_excess(const struct pool *pool);
