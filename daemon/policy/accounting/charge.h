/* SPDX-License-Identifier: Apache-2.0 */
/* What a client is charged: the bytes of one block, added to the client, to its tenant and to the pool. A
 * charge is a member of the block that causes it. Ending the charge subtracts the bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

#define CHARGE_NULL ((struct charge){.n_bytes = 0})

/* Blocks are limited by their pool, but clients declare bytes freely: returns whether the sums have room.
 * Call it before such a charge begins. */
#define CHARGES_MAX (UINT64_C(1) << 62)
bool charge_fits(const struct client *client, const struct pool *pool, uint64_t n_bytes);

void charge_init(struct charge *charge, struct client *client, struct pool *pool, uint64_t n_bytes,
                 enum charge_kind kind);

/* Also legal when no client is charged. */
void charge_deinit(struct charge *charge);
