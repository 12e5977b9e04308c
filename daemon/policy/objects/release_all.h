/* SPDX-License-Identifier: Apache-2.0 */
/* One call that gives cached blocks, and those of idle leases, back to the driver. It lives until the last
 * block is released and the answer is taken. Owned by the client that asked; each block knows the call that
 * waits for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* -ENOMEM: nothing will be released. All blocks are looked at, at once or, in turns (policy_serve_in_turns), by
 * release_all_go_on. */
int release_all_new(struct client *client, uint32_t serial, uint32_t pool, enum policy_scope scope);

/* For all chosen tenants, in all pools. */
int release_all_of(struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument);

/* Looks at so many blocks for the client's call, of which one that goes back is nine. Returns whether others are left. */
bool release_all_go_on(struct client *client, unsigned n_most);

/* Its blocks go back all the same, but without an answer. */
struct release_all *release_all_free(struct release_all *release_all);

/* The client ends: the call waits for one block less, or is freed if it waits for none. */
void release_all_drop_one(struct release_all *release_all);

/* This block, for which a release_all may wait, has gone back to the driver. */
void release_all_released(struct block *block);

/* The worker has released the block, but clients map it. They have been told, and the call waits until the
 * unmap timeout. It does not wait for a block that its clients keep mapped. */
void release_all_lingers(struct block *block);

/* The block may linger for long: the call does not wait for it any more, and does not count it. */
void release_all_stays(struct block *block);
