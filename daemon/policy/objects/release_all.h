/* SPDX-License-Identifier: Apache-2.0 */
/* One call that gives cached blocks, and those of idle leases, back to the driver, until the last of them is released and the
 * answer is taken. Owned by the client that asked; blocks know the one that waits for them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

/* -ENOMEM: nothing was released then. */
int release_all_new(struct client *client, uint32_t serial, uint32_t pool, enum policy_scope scope);

/* Of every tenant that is chosen, in all pools; so many blocks were released. */
int release_all_of(struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument, uint64_t *ret_n_blocks);

/* Its blocks go back all the same, but nobody is told. */
struct release_all *release_all_free(struct release_all *release_all);

/* This block, which a release_all may wait for, went back to the driver. */
void release_all_released(struct block *block);

/* The worker has released it, and clients map it, which have been told: it is waited for until the unmap timeout.
 * One that its clients keep mapped is not. */
void release_all_lingers(struct block *block);

/* It lingers, and may do so for long: nobody waits for it any more, and it has not gone back. */
void release_all_stays(struct block *block);
