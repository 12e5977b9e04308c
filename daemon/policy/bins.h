/* Where cached blocks are found: one tenant's in one pool, by size and properties.
 *
 * A bin holds the cached blocks of exactly one size and one set of properties, and lives while such
 * blocks exist, cached or not: so a block that becomes cached needs no memory for it. Bins stand in
 * log-linear classes, smallest first; a bit a class says that a block is cached in it. Owned by one
 * holding. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "base/bitmap.h"
#include "base/size.h"

struct block;
struct bins;

struct bin {
        struct bins *bins;
        uint64_t n_bytes;
        uint32_t properties;
        uint32_t n_refs;                      /* blocks of this size and these properties */
        TAILQ_HEAD(bin_blocks, block) cached; /* the one cached last is first */
        TAILQ_ENTRY(bin) class_link;
};

struct bins {
        struct bitmap occupied;
        TAILQ_HEAD(bin_class, bin) classes[SIZE_N_CLASSES];
};

void bins_init(struct bins *bins);

/* The bin of this size, made if need be; -ENOMEM. */
int bins_ref(struct bins *bins, uint64_t n_bytes, uint32_t properties, struct bin **ret_bin);
struct bin *bin_unref(struct bin *bin);

void bin_put(struct bin *bin, struct block *block);
void bin_remove(struct bin *bin, struct block *block);

/* The largest block that serves a request: 12.5 % more. */
uint64_t bins_limit(uint64_t n_bytes);

/* The bin of the smallest cached blocks of n_bytes to n_most_bytes, or NULL. */
struct bin *bins_find(const struct bins *bins, uint64_t n_bytes, uint64_t n_most_bytes,
                      uint32_t properties);
