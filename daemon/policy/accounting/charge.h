/* SPDX-License-Identifier: Apache-2.0 */
/* What a client is charged: the bytes of one block, added to the client, to its tenant and to the pool. A
 * charge is a member of the block that causes it. Ending the charge subtracts the bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
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

static inline uint64_t charge_sum_bytes(const struct charge_sum *sum)
{
        return sum->ranked[CHARGE_OF_POOL].n_bytes;
}

/* The client's sum that has this place in a ranking of that kind. */
static inline struct charge_sum *charge_sum_of(struct ranked *ranked, enum charge_ranking ranking)
{
        return CONTAINER_OF(ranked - ranking, struct charge_sum, ranked[0]);
}

/* The charge owner: the client that is charged for a block that is not in use.
 *
 * For a lingering block, it is the last holder among the clients that may still map it. For a cached block,
 * it is the last client that keeps it mapped, or that returned it and has not reported that it unmapped it.
 * A block that stays mapped makes no room for others, so a client's own word does not end the charge. A
 * client from which the block was revoked is not charged while it is cached: it was not asked to unmap it. */

/* The client that is charged if the block is cached, or NULL. */
struct client *charge_owner_in_cache(const struct block *block);

/* Charges that client only; NULL: no client. */
void charge_owner_set(struct block *block, struct client *client, enum charge_kind kind);

/* Charges the right client, in CACHED, RELEASING and LINGERING. */
void charge_owner_update(struct block *block);
