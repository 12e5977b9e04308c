/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that outlives its sharer for a while, for processes that attach late.
 *
 * When the sharer's lease ends, a lease of the tenant's keeper takes its place. So the block is held, and charged, as if
 * the keeper had attached it. The keeper is a client without a session. It exists while it keeps something, or may have
 * to. The token's making allocates all that the keeper needs, so nothing can fail at the sharer's end. The keeper lets go
 * when another client attaches by the token, when the time is over, and when the token is withdrawn.
 *
 * A keep belongs to its share. */
#pragma once

#include "daemon/policy/state/types.h"

/* Keeps that one tenant may have at a time. */
#define KEEPS_A_TENANT 1024

/* For a new share. GPUMEM_E_TOO_MANY, -ENOMEM. */
int keep_new(struct share *share, uint64_t keep_ns);

/* The lease is about to end; it may be the sharer's. A daemon that ends keeps nothing, since no process could attach. */
void keep_begin(const struct lease *lease);

/* Ends the keep: another client has attached by the token, or the token ends. The block may be freed, and
 * the share with it. */
void keep_end(struct share *share);

/* The client has attached by the token. The sharer itself does not count. */
void keep_attached(struct share *share, const struct client *client);

/* Ends the keeps whose time is over, so many at most. Returns how many of these it did not need. The next functions end
 * all keeps, and return when the first one ends (UINT64_MAX: there is none). */
unsigned keep_expire(struct policy *policy, unsigned n_most, uint64_t now_ns);
void keep_end_all(struct policy *policy);

/* Also drops keeps that have not begun: the policy ends. */
void keep_forget_all(struct policy *policy);

uint64_t keep_next_end(const struct policy *policy);
