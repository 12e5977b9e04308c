/* SPDX-License-Identifier: Apache-2.0 */
/* Which clients hold most of a pool, without a walk through all clients.
 *
 * Each client has one sum a pool: what it is charged there. Sums that are not 0 stand in two rankings: that of the pool,
 * and that of the client's tenant in this pool. A ranking has one list for each power of two, so a change of a sum costs
 * the same however many clients there are. Lists come in falling order; within one list the order is arbitrary. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

void charge_ranking_init(struct charge_ranking *ranking, enum charge_ranking_of of);

/* The client's sum in the pool grows or shrinks. */
void charge_ranking_add(struct client *client, struct pool *pool, uint64_t n_bytes);
void charge_ranking_sub(struct client *client, struct pool *pool, uint64_t n_bytes);

/* The first sum, and the next one; NULL after the last. No sum may change between the two calls. */
struct charge_sum *charge_ranking_first(const struct charge_ranking *ranking);
struct charge_sum *charge_ranking_next(const struct charge_ranking *ranking,
                                       const struct charge_sum *sum);

void charge_ranking_check(const struct charge_ranking *ranking);
