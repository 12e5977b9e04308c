/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks are found that may serve a request: one tenant's in one pool, by size and properties.
 *
 * A bin holds the blocks of exactly one size and one set of properties: on one side those that are cached, on the other
 * those in a lease that may be idle. It lives while such blocks exist, in whatever state: so a block that changes its
 * state needs no memory for it. Bins stand in log-linear classes, smallest first; for each side a bit a class says that
 * a block is there. Owned by one holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/types.h"

void bins_init(struct bins *bins);

/* The bin of this size, made if need be; -ENOMEM. */
int bins_ref(struct bins *bins, uint64_t n_bytes, uint32_t properties, struct bin **ret_bin);
struct bin *bin_unref(struct bin *bin);

void bin_put(struct bin *bin, enum bin_side side, struct block *block);
void bin_remove(struct bin *bin, enum bin_side side, struct block *block);

/* It is cached, the last of all, and somebody is charged for it; nobody is any more, or never was. */
void bin_put_charged(struct bin *bin, struct block *block);
void bin_forget_charged(struct bin *bin, struct block *block);

/* The largest block that serves a request: 12.5 % more. */
uint64_t bins_limit(uint64_t n_bytes);

/* What a block must be to serve a request; both sizes are included. */
struct bin_range {
        uint64_t n_least_bytes;
        uint64_t n_most_bytes;
        uint32_t properties;
};

bool bin_is_in_range(const struct bin *bin, const struct bin_range *range);

/* The bin of the smallest blocks in the range that are on this side, or NULL; and of the largest. */
struct bin *bins_find(const struct bins *bins, enum bin_side side, const struct bin_range *range);
struct bin *bins_find_last(const struct bins *bins, enum bin_side side,
                           const struct bin_range *range);
