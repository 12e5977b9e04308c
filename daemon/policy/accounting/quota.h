/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a client and its tenant may be charged for one more block.
 *
 * A request that would pass a limit may wait until its own client or tenant gives something back; it holds
 * up no other tenant. In one walk through a pool's queue, later requests of the same client or tenant wait
 * behind it. Otherwise small requests would keep a large one waiting for ever. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

uint64_t usage_bytes(const struct usage *usage, enum policy_kind kind);

/* Call it with every charge that begins or ends. */
void usage_add(struct usage *usage, enum policy_kind kind, uint64_t n_bytes);
void usage_remove(struct usage *usage, enum policy_kind kind, uint64_t n_bytes);

/* Whether n_bytes more in the pool exceed a limit; ret_hit tells which. */
bool quota_is_passed(const struct client *client, const struct pool *pool, uint64_t n_bytes,
                     struct limit_hit *ret_hit);

/* The same for everything that the request asks for. */
bool quota_is_passed_by(const struct request *request, struct limit_hit *ret_hit);

/* Whether the client's or its tenant's limit forbids a block of that size, if that party were charged for
 * it and for all of its `shared_usage`. */
bool quota_bars(const struct client *client, enum limit_scope scope, const struct pool *pool,
                uint64_t n_bytes, const struct usage *shared_usage);

/* Whether a limit keeps the client from leasing the cached block. A party that is charged for the block
 * already stays charged. A client that takes it over from another one of its tenant does not change the
 * tenant's sum. */
bool quota_bars_cached(const struct client *client, const struct block *block);

/* Whether the request exceeds a limit even if nothing else is charged. */
bool quota_is_hopeless(const struct request *request, struct limit_hit *ret_hit);

/* Whether the request has to wait in this walk, for a limit or behind a request that does. */
bool quota_holds(const struct request *request, uint64_t walk, struct limit_hit *ret_hit);

/* The request, stopped by `hit`, stays in the queue: later requests under the same limit wait behind it. */
void quota_wait(struct request *request, uint64_t walk, const struct limit_hit *hit);
