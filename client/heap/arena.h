/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's addresses in this process: reserved ranges in granules of 2 MiB, which blocks stand in, and for each granule
 * its block, so that a pointer finds its block by arithmetic. There is one range, where the system had addresses enough
 * when the arena was made; others may come later, within the arena's span.
 *
 * The arena knows addresses only; what is mapped there is its user's matter. Pure. The owner locks, but for arena_find,
 * which may run beside all else: it answers for a block that stands there throughout, and for others with one that
 * stood there or NULL. */
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

/* Between two of them there is a granule at least that is neither's: no block, and no run of blocks, crosses it. */
struct arena_range {
        uint64_t start;
        uint64_t end;
};

/* To look into for arena_find only, which is in every free. */
struct arena {
        uint64_t start; /* of the span */
        uint64_t n_bytes;
        _Atomic(struct arena_block *) *granules; /* zero pages until used */
        struct arena_block **blocks;             /* by address */
        uint32_t n_blocks;
        uint32_t n_room;
        struct arena_range *ranges; /* by address */
        uint32_t n_ranges;
};

/* Over addresses that the caller has reserved and keeps reserved. Both in whole granules. */
int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* The same without addresses yet: those that are added stand within this span. */
int arena_new_span(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* Blocks may stand there too from now on; a granule at either end is left out where another range begins or ends.
 * -ERANGE: not within the span, or nothing would be left; -ENOMEM. */
int arena_add(struct arena *arena, uint64_t start, uint64_t n_bytes);

/* Forgets the addresses; blocks that were not taken out stay what they are. NULL is legal; returns NULL. */
struct arena *arena_free(struct arena *arena);

uint64_t arena_start(const struct arena *arena);

/* Addresses for a block far from the others, so that those have room to grow into, or next to each other where it is
 * known that they will not grow. -ENOMEM when no gap is long enough. */
enum arena_wish { ARENA_APART, ARENA_CLOSE };
int arena_choose(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish,
                 uint64_t *ret_start);

/* What is free from an address on, up to the next block or the end; and down from it. */
uint64_t arena_room_above(const struct arena *arena, uint64_t address);
uint64_t arena_room_below(const struct arena *arena, uint64_t address);

/* Puts a block, whose start and n_bytes are set, where nothing stands. -ENOMEM. It must stay where it is in memory for
 * as long as arena_find may be asked, even after it was taken out. */
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
