/* SPDX-License-Identifier: Apache-2.0 */
/* One pool: its limit, its blocks, its waiting requests. It owns neither: blocks belong to tenants and
 * requests to clients, which remove them from the pool's lists. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

int pool_new(struct policy *policy, uint32_t id, const struct policy_pool *settings,
             struct pool **ret_pool);
struct pool *pool_free(struct pool *pool);

/* Bytes that may be created at once. */
uint64_t pool_room(const struct pool *pool);

/* Bytes above the pool's lowered limit that remain when everything that is certain to come back has come
 * back. Until clients return that much, nothing is created. */
uint64_t pool_debt(const struct pool *pool);

/* The same without the bytes that are being released: while there is some, no block comes to be cached. */
uint64_t pool_excess(const struct pool *pool);
