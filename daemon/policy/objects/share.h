/* SPDX-License-Identifier: Apache-2.0 */
/* One token for one block: by it others attach the block for as long as somebody leases it.
 *
 * Stands in its block's list, which owns it, and in the policy's table. A block may have several,
 * each withdrawn on its own. Who is not meant by a token must not learn that there is one. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

#define SHARES_PER_BLOCK_MAX 64

/* For a block in LEASED. GPUMEM_E_TOO_MANY, -EEXIST, -ENOMEM. */
int share_new(struct block *block, const struct policy_share *terms);
struct share *share_free(struct share *share);

/* NULL: no such token. What the comparison takes does not tell how much of it is right. */
struct share *share_find(const struct policy *policy, const struct policy_token *token);

/* May the client attach, and may it withdraw the token? */
bool share_is_for(const struct share *share, const struct client *client);
bool share_is_of(const struct share *share, const struct client *client);
