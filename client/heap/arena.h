/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's addresses in this process: reserved ranges of address space, in granules of 2 MiB, in which blocks stand.
 * Each granule has a pointer to its block, so that an address finds its block by arithmetic. If the system had enough
 * addresses when the arena was made, there is one range. Others may be added later, within the arena's span.
 *
 * The arena knows addresses only; what is mapped there is its owner's concern. Pure. The owner locks, except for
 * arena_find, which may run beside every other call. For a block that stands there throughout, it returns that block;
 * otherwise it returns a block that stood there, or NULL. */
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

/* Between two ranges at least one granule belongs to neither, so that no block and no run of blocks crosses from one
 * into another. */
struct arena_range {
        uint64_t start;
        uint64_t end;
};

/* Defined here for arena_find only, which every free calls; what that reads is in one line. */
struct arena {
        _Alignas(64) uint64_t start; /* of the span */
        uint64_t n_bytes;
        _Atomic(struct arena_block *) *granules; /* zero pages until used */
        struct arena_block **blocks;             /* by address */
        uint32_t n_blocks;
        uint32_t n_room;
        struct arena_range *ranges; /* by address */
        uint32_t n_ranges;
};

/* Makes an arena of addresses that the caller has reserved and keeps reserved. Both numbers are in whole granules. */
int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* The same without addresses yet: ranges that are added later lie within this span. */
int arena_new_span(uint64_t start, uint64_t n_bytes, struct arena **ret_arena);

/* Adds a range in which blocks may stand. Where it would touch another range, a granule at that end is left out.
 * -ERANGE: it is not within the span, or nothing would be left; -ENOMEM. */
int arena_add(struct arena *arena, uint64_t start, uint64_t n_bytes);

/* Frees the arena. Blocks that are still in it are left as they are. NULL is legal; returns NULL. */
struct arena *arena_free(struct arena *arena);

uint64_t arena_start(const struct arena *arena);

/* Requests of three sizes have a part of the span each: two quarters, and the upper half. A heap prefers holes at low
 * addresses. So small requests are cut from the blocks of larger ones only if there is no other room, and do not keep
 * those blocks from becoming empty. */
enum arena_wish { ARENA_SMALL, ARENA_MEDIUM, ARENA_LARGE, ARENA_CLOSE };
struct arena_range arena_part(const struct arena *arena, enum arena_wish wish);

/* Chooses addresses for a block. ARENA_SMALL, ARENA_MEDIUM, ARENA_LARGE: far from the others, so that those have room
 * to grow into, and in that part if there is room. ARENA_CLOSE: anywhere, next to another, if it is known that they
 * will not grow. -ENOMEM: no gap is long enough. */
int arena_choose(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish,
                 uint64_t *ret_start);

/* Free bytes from an address up to the next block or the end; and from it downwards. */
uint64_t arena_room_above(const struct arena *arena, uint64_t address);
uint64_t arena_room_below(const struct arena *arena, uint64_t address);

/* Adds a block where nothing stands; the caller has set its start and n_bytes. -ENOMEM. The struct must stay in
 * memory as long as arena_find may be called, even after arena_take_out. */
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
