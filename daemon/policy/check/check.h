/* SPDX-License-Identifier: Apache-2.0 */
/* Derives every total and every link from scratch and asserts them, in parts. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

/* All of them. */
void policy_check(const struct policy *policy);

/* Pools, their lists and totals, and each block's state against all that refers to it. */
void check_pools(const struct policy *policy);

/* Bytes that clients, or those of one tenant, declare in a pool; NULL: of all. */
uint64_t check_declared(const struct pool *pool, const struct tenant *tenant);

/* Tenants: references, totals, bins. */
void check_tenants(const struct policy *policy);

/* Clients: leases, slots, requests, charges. */
void check_clients(const struct policy *policy);

/* A block's tokens: only of one that is shareable and leased, each in the table. */
void check_shares_of(const struct block *block);

/* The table of tokens holds those of the blocks and no others. */
void check_shares(const struct policy *policy);

/* Every action that an object says is queued is, and no others are. */
void check_actions(const struct policy *policy);
