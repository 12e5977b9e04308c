/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/new_blocks.h"

#include <errno.h>

#include "base/size.h"
#include "client/reserve/window.h"
#include "gpumem.h"

#define REQUEST_PART 8
#define AHEAD_PART   128

/* Smaller blocks are leased only if no more is missing. */
#define BLOCK_LEAST (2 * HEAP_BLOCK_UNIT)

/* Blocks are not larger, unless they would be more than NEW_BLOCKS_PARTS. */
#define BLOCK_MOST GIB

/* The blocks of a large request are this part of the peak at least. */
#define LARGE_PEAK_PART 128

/* For memory in runs of one block each. */
#define SPLIT_GROWTH 8
#define SPLIT_MAX    (64 * MIB)

/* Rounds up to one of two sizes a doubling, so that other heaps can use the blocks of this one. */
static uint64_t round_common(uint64_t n_bytes)
{
        uint64_t power = HEAP_BLOCK_UNIT;

        while (power < n_bytes)
                power *= 2;
        return n_bytes <= power / 4 * 3 && power > HEAP_BLOCK_UNIT * 2 ? power / 4 * 3 : power;
}

static enum arena_wish wish_of(const struct heap *heap, uint64_t n_bytes)
{
        if (heap->runs == HEAP_SPLIT)
                return ARENA_CLOSE;
        if (n_bytes >= NEW_BLOCKS_LARGE)
                return ARENA_LARGE;
        return n_bytes < NEW_BLOCKS_SMALL ? ARENA_SMALL : ARENA_MEDIUM;
}

/* A run of its own. */
static int choose_new(const struct heap *heap, uint64_t n_bytes, enum arena_wish wish,
                      struct window *ret_place)
{
        uint64_t start;
        int r = arena_choose(heap->arena, n_bytes, wish, &start);

        if (r)
                return r;
        *ret_place = (struct window){
                .start = start, .end = start + n_bytes, .n_missing = n_bytes, .n_gaps = 1};
        return 0;
}

static int choose(const struct heap *heap, uint64_t n_bytes, const struct new_blocks_terms *terms,
                  struct window *ret_place)
{
        enum arena_wish wish = terms->n_parts ? ARENA_CLOSE : wish_of(heap, n_bytes);
        struct arena_range part = arena_part(heap->arena, wish);

        if (heap->runs == HEAP_JOINED &&
            window_find(heap, terms->n_look, &part, n_bytes, ret_place))
                return 0;
        return choose_new(heap, window_round_up(n_bytes), wish_of(heap, n_bytes), ret_place);
}

/* Makes the place longer than the request needs, where addresses next to it are free. A place that is a run of its
 * own grows downwards, so that it stands close to what is above it. */
static void extend(const struct heap *heap, struct window *place, uint64_t n_wanted,
                   uint64_t n_spare_bytes)
{
        uint64_t n_more = n_wanted > place->n_missing ? n_wanted - place->n_missing : 0;
        uint64_t n_room;

        if (arena_find(heap->arena, place->end - 1))
                return;
        n_room = heap->runs == HEAP_SPLIT ? arena_room_below(heap->arena, place->start)
                                          : arena_room_above(heap->arena, place->end);
        if (n_more > n_spare_bytes)
                n_more = n_spare_bytes;
        if (n_more > n_room)
                n_more = n_room;
        n_more &= ~(HEAP_BLOCK_UNIT - 1);
        if (heap->runs == HEAP_SPLIT)
                place->start -= n_more;
        else
                place->end += n_more;
        place->n_missing += n_more;
}

/* Cuts the gaps of a place into blocks. -E2BIG: they are more than NEW_BLOCKS_PARTS. */
static int cut(const struct heap *heap, const struct window *place, uint64_t n_block_bytes,
               struct new_blocks *new_blocks)
{
        uint64_t at = place->start & ~(HEAP_BLOCK_UNIT - 1);

        new_blocks->n_parts = 0;
        new_blocks->n_bytes = 0;
        while (at < place->end) {
                const struct arena_block *block = arena_find(heap->arena, at);
                uint64_t n_gap;

                if (block) {
                        at = block->start + block->n_bytes;
                        continue;
                }
                n_gap = arena_room_above(heap->arena, at);
                if (n_gap > place->end - at)
                        n_gap = window_round_up(place->end - at);
                if (n_gap > n_block_bytes)
                        n_gap = n_block_bytes;
                if (new_blocks->n_parts == NEW_BLOCKS_PARTS)
                        return -E2BIG;
                new_blocks->parts[new_blocks->n_parts++] = (struct arena_block){at, n_gap};
                new_blocks->n_bytes += n_gap;
                at += n_gap;
        }
        return 0;
}

/* Doubles the block size until the blocks are few enough. At worst each gap is one block, and there are at most
 * WINDOW_GAPS_MAX of them. */
static void cut_well(const struct heap *heap, const struct window *place, uint64_t n_block_bytes,
                     struct new_blocks *new_blocks)
{
        while (cut(heap, place, n_block_bytes, new_blocks))
                n_block_bytes *= 2;
        new_blocks->start = place->start;
        new_blocks->end = place->end;
        new_blocks->n_block_bytes = n_block_bytes;
}

static uint64_t block_bytes(const struct heap *heap, uint64_t n_bytes,
                            const struct new_blocks_terms *terms)
{
        unsigned n_parts = terms->n_parts ? terms->n_parts : REQUEST_PART;
        uint64_t n_block_bytes = size_larger(terms->n_block_bytes, n_bytes / n_parts);

        if (heap->runs == HEAP_SPLIT)
                return UINT64_MAX / 4;
        if (n_bytes >= NEW_BLOCKS_LARGE)
                n_block_bytes = size_larger(n_block_bytes, terms->n_peak_bytes / LARGE_PEAK_PART);
        n_block_bytes = size_larger(n_block_bytes, size_larger(terms->n_least_bytes, BLOCK_LEAST));
        return size_smaller(round_common(n_block_bytes), BLOCK_MOST);
}

/* What is wanted beyond the request. */
static uint64_t wanted_bytes(const struct heap *heap, const struct new_blocks_terms *terms)
{
        if (heap->runs == HEAP_SPLIT)
                return size_smaller(heap->n_reserved_bytes / SPLIT_GROWTH, SPLIT_MAX);
        return size_larger(terms->n_peak_bytes / AHEAD_PART, terms->n_least_bytes);
}

int new_blocks_plan(const struct heap *heap, uint64_t n_bytes, const struct new_blocks_terms *terms,
                    struct new_blocks *ret_new_blocks)
{
        uint64_t n_least = terms->n_least_bytes, needed_end;
        struct window place;
        int r;

        if (n_bytes > UINT64_MAX / 2)
                return GPUMEM_E_TOO_LARGE;
        r = choose(heap, n_bytes, terms, &place);
        if (r)
                return r;
        needed_end = place.end;
        if (place.n_missing)
                extend(heap, &place, wanted_bytes(heap, terms),
                       size_larger(terms->n_spare_bytes, n_least));
        /* If there are no addresses for a longer run, a short one must do. */
        if (heap->runs == HEAP_JOINED && place.n_missing && place.n_missing < n_least &&
            !choose_new(heap, size_larger(window_round_up(n_bytes), n_least),
                        wish_of(heap, n_bytes), &place))
                needed_end = place.start + n_bytes;
        cut_well(heap, &place, block_bytes(heap, n_bytes, terms), ret_new_blocks);
        ret_new_blocks->needed_end = window_round_up(needed_end);
        return 0;
}
