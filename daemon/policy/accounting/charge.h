/* SPDX-License-Identifier: Apache-2.0 */
/* What a client is held to account for: bytes of one block, added to the client, to its tenant and
 * to the pool. A charge stands inside the block that causes it; ending it gives the bytes back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

#define CHARGE_NULL ((struct charge){.n_bytes = 0})

/* Blocks are within a pool's limit, but what clients declare is only their word: whether the sums
 * have room for it. To be asked before such a charge begins. */
#define CHARGES_MAX (UINT64_C(1) << 62)
bool charge_fits(const struct client *client, const struct pool *pool, uint64_t n_bytes);

void charge_init(struct charge *charge, struct client *client, struct pool *pool, uint64_t n_bytes,
                 enum charge_kind kind);

/* Legal also when nobody is charged. */
void charge_deinit(struct charge *charge);
