/* SPDX-License-Identifier: Apache-2.0 */
/* Finds blocks that may serve a request: those of one tenant in one pool, by size and properties.
 *
 * A bin has the blocks of exactly one size and one set of properties: on one side the cached ones, on the
 * other those in a lease that may be idle. A bin lives while such blocks exist, in any state, so that a
 * change of state needs no memory. Bins are grouped in log-linear classes, sorted by size. For each side, a
 * bit for each class tells whether it has a block. Owned by one holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

void bins_init(struct bins *bins);

/* The bin of this size, created if needed; -ENOMEM. */
int bins_ref(struct bins *bins, uint64_t n_bytes, uint32_t properties, struct bin **ret_bin);
struct bin *bin_unref(struct bin *bin);

void bin_put(struct bin *bin, enum bin_side side, struct block *block);
void bin_remove(struct bin *bin, enum bin_side side, struct block *block);

/* Adds a cached block that a client is charged for, as the latest one. bin_forget_charged: no client is
 * charged any more, or ever was. */
void bin_put_charged(struct bin *bin, struct block *block);
void bin_forget_charged(struct bin *bin, struct block *block);

/* The largest block that serves a request: 12.5 % larger. */
uint64_t bins_limit(uint64_t n_bytes);

/* The blocks that serve a request; both sizes are included. */
struct bin_range {
        uint64_t n_least_bytes;
        uint64_t n_most_bytes;
        uint32_t properties;
};

bool bin_is_in_range(const struct bin *bin, const struct bin_range *range);

/* The bin with the smallest blocks in the range on this side, or NULL. The next function finds the largest. */
struct bin *bins_find(const struct bins *bins, enum bin_side side, const struct bin_range *range);
struct bin *bins_find_last(const struct bins *bins, enum bin_side side,
                           const struct bin_range *range);
