/* A pool's addresses in this process: a reserved range in granules of 2 MiB, which blocks stand in,
 * and for each granule its block, so that a pointer finds its block by arithmetic.
 *
 * The arena knows addresses only; what is mapped there is its user's matter. Pure. The owner locks,
 * but for arena_find, which may run beside all else: it answers for a block that stands there
 * throughout, and for others with one that stood there or NULL. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"

#define ARENA_GRANULE (2 * MIB)

/* Read-only for callers. */
struct arena_block {
        uint64_t start;
        uint64_t n_bytes;
};

/* To look into for arena_find only, which is in every free. */
struct arena {
        uint64_t start;
        uint64_t n_bytes;
        _Atomic(struct arena_block *) *granules; /* zero pages until used */
        struct arena_block **blocks;             /* by address */
        uint32_t n_blocks;
        uint32_t n_room;
};

/* Over addresses that the caller has reserved and keeps reserved. Both in whole granules. */
int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* Forgets the addresses; blocks that were not taken out stay what they are. NULL is legal; returns
 * NULL. */
struct arena *arena_free(struct arena *arena);

uint64_t arena_start(const struct arena *arena);

/* Addresses for a block far from the others, so that those have room to grow into, or next to each
 * other where it is known that they will not grow. -ENOMEM when no gap is long enough. */
enum arena_wish { ARENA_APART, ARENA_CLOSE };
int arena_choose(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish,
                 uint64_t *ret_start);

/* What is free from an address on, up to the next block or the end; and down from it. */
uint64_t arena_room_above(const struct arena *arena, uint64_t address);
uint64_t arena_room_below(const struct arena *arena, uint64_t address);

/* Puts a block, whose start and n_bytes are set, where nothing stands. -ENOMEM. It must stay where it
 * is in memory for as long as arena_find may be asked, even after it was taken out. */
int arena_put(struct arena *arena, struct arena_block *block);
void arena_take_out(struct arena *arena, struct arena_block *block);

/* The first block that starts at an address or above it, or NULL. */
struct arena_block *arena_next(const struct arena *arena, uint64_t address);

/* The block at an address, or NULL. */
static inline struct arena_block *arena_find(const struct arena *arena, uint64_t address)
{
        uint64_t offset = address - arena->start;

        return offset < arena->n_bytes
                       ? atomic_load_explicit(&arena->granules[offset / ARENA_GRANULE],
                                              memory_order_acquire)
                       : NULL;
}
