/* SPDX-License-Identifier: Apache-2.0 */
/* A token for a block: other clients attach the block by it while a client leases the block.
 *
 * It is in its block's list, which owns it, and in the policy's table. A block may have several tokens,
 * which are withdrawn one by one. A client that a token is not for must not learn that it exists. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

#define SHARES_PER_BLOCK_MAX 64

/* For a block in LEASED. GPUMEM_E_TOO_MANY, -EEXIST, -ENOMEM. */
int share_new(struct block *block, const struct policy_share *terms);
struct share *share_free(struct share *share);

/* NULL: no such token. The time of the comparison does not tell how much of the token is right. */
struct share *share_find(const struct policy *policy, const struct policy_token *token);

/* Whether the client may attach by it; the next function: whether it may withdraw it. */
bool share_is_for(const struct share *share, const struct client *client);
bool share_is_of(const struct share *share, const struct client *client);
