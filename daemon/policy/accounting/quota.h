/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a client and its tenant may be charged for one more block.
 *
 * A request that would pass a limit waits, if it may, for its own side to give something back: it
 * holds up no other tenant. Within one walk along a pool's queue, those of the same client or tenant that
 * asked later wait behind it, or small requests would keep a large one waiting for ever. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

uint64_t usage_bytes(const struct usage *usage, enum policy_kind kind);

/* To be called with every charge that begins or ends. */
void usage_add(struct usage *usage, enum policy_kind kind, uint64_t n_bytes);
void usage_remove(struct usage *usage, enum policy_kind kind, uint64_t n_bytes);

/* Whether n_bytes more in the pool pass a limit; ret_hit says which. */
bool quota_is_passed(const struct client *client, const struct pool *pool, uint64_t n_bytes,
                     struct limit_hit *ret_hit);

/* The same of all that the request asks for. */
bool quota_is_passed_by(const struct request *request, struct limit_hit *ret_hit);

/* Whether a block of so many bytes would pass the client's or its tenant's limit if it came to that
 * one's charge, and all of `shared_usage` too. */
bool quota_bars(const struct client *client, enum limit_scope scope, const struct pool *pool,
                uint64_t n_bytes, const struct usage *shared_usage);

/* Whether a limit keeps the client from the cached block. Who is charged for it as it is goes on being
 * charged, and a tenant's client takes it over from another without a change of the tenant's sum. */
bool quota_bars_cached(const struct client *client, const struct block *block);

/* Whether the request would pass one even if nothing else were charged. */
bool quota_is_hopeless(const struct request *request, struct limit_hit *ret_hit);

/* Whether the request has to wait in this walk, for a limit or behind one that does. */
bool quota_holds(const struct request *request, uint64_t walk, struct limit_hit *ret_hit);

/* The request, held by `hit`, stays in the queue: later ones under the same limit wait behind it. */
void quota_wait(struct request *request, uint64_t walk, const struct limit_hit *hit);
