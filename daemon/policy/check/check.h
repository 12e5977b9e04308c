/* SPDX-License-Identifier: Apache-2.0 */
/* Computes every total and every link from scratch and asserts them, in parts. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

/* Runs all checks. */
void policy_check(const struct policy *policy);

/* Bytes that the clients of one tenant declare in a pool; NULL: all clients. */
uint64_t check_declared(const struct pool *pool, const struct tenant *tenant);

/* Tenants: references, totals, bins. */
void check_tenants(const struct policy *policy);

/* Clients: leases, slots, requests, charges. */
void check_clients(const struct policy *policy);

/* A block's tokens: only a shareable, leased block has some, and each is in the table. */
void check_shares_of(const struct block *block);

/* The table of tokens has exactly the tokens of the blocks. */
void check_shares(const struct policy *policy);
