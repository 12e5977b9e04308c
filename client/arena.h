/* A pool's addresses in this process: a reserved range, handed out in granules of 2 MiB, and for
 * each granule the block that stands there, so that a pointer finds its block by arithmetic.
 *
 * The arena knows addresses only; what is mapped there is its user's matter. The owner locks. */
#pragma once

#include <stdint.h>

#include "base/size.h"

#define ARENA_GRANULE (2 * MIB)

struct arena;

/* Over addresses that the caller has reserved and keeps reserved. Both in whole granules. */
int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* Forgets the addresses; ranges that were not given back stay what they are. NULL is legal; returns
 * NULL. */
struct arena *arena_free(struct arena *arena);

/* A range for `block`, of whole granules. -ENOMEM when no range is long enough. */
int arena_take(struct arena *arena, uint64_t n_bytes, void *block, uint64_t *ret_address);

/* The range that starts there is free again. */
void arena_give(struct arena *arena, uint64_t address);

/* The block at an address, or NULL. */
void *arena_find(const struct arena *arena, uint64_t address);
