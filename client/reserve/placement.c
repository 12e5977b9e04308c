/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/placement.h"

#include <errno.h>

#include "gpumem.h"

#define REQUEST_PART 8
#define AHEAD_PART   128

/* Smaller blocks are leased only if no more is missing. */
#define BLOCK_LEAST (2 * HEAP_BLOCK_UNIT)

/* A place with more gaps is not worth its leases; one with fewer can always be cut. */
#define GAPS_MAX 16

/* Blocks are not larger, unless they would be more than a placement holds. */
#define BLOCK_MOST GIB

/* The blocks of a large request are this part of the peak at least. */
#define LARGE_PEAK_PART 64

/* For memory in runs of one block each. */
#define SPLIT_GROWTH 8
#define SPLIT_MAX    (64 * MIB)

/* A place for the request, and the bytes that are missing there. */
struct place {
        uint64_t start, end; /* of what will be one hole; covers the request */
        uint64_t n_missing;
        unsigned n_gaps;
};

static uint64_t round_up(uint64_t n_bytes)
{
        return (n_bytes + HEAP_BLOCK_UNIT - 1) & ~(HEAP_BLOCK_UNIT - 1);
}

/* Rounds up to one of two sizes a doubling, so that other heaps can use the blocks of this one. */
static uint64_t round_common(uint64_t n_bytes)
{
        uint64_t power = HEAP_BLOCK_UNIT;

        while (power < n_bytes)
                power *= 2;
        return n_bytes <= power / 4 * 3 && power > HEAP_BLOCK_UNIT * 2 ? power / 4 * 3 : power;
}

static uint64_t end_of(const struct heap_block *block)
{
        return block->at.start + block->at.n_bytes;
}

static uint64_t free_bytes(const struct heap *heap, uint32_t index)
{
        const struct extent *extent = extents_at(&heap->extents, index);

        return extent->state == EXTENT_FREE ? extent->n_units * HEAP_UNIT : 0;
}

/* The bytes of the hole at the end of the run that ends with the block at that index. */
static uint64_t free_below_end(const struct heap *heap, uint32_t place)
{
        uint32_t edge = heap->blocks[place]->edges.after;

        return free_bytes(heap, extents_at(&heap->extents, edge)->before);
}

/* The bytes of the hole at the start of the run that begins with that block. */
static uint64_t free_above_start(const struct heap *heap, uint32_t place)
{
        uint32_t edge = heap->blocks[place]->edges.before;

        return free_bytes(heap, extents_at(&heap->extents, edge)->after);
}

/* The last block of the run. */
static uint32_t last_of_run(const struct heap *heap, uint32_t place)
{
        while (!heap->blocks[place]->edges.after)
                place++;
        return place;
}

/* Fewer missing bytes are better; each lease counts as half a granule. */
static uint64_t cost_of(const struct place *place)
{
        return place->n_missing + place->n_gaps * (HEAP_BLOCK_UNIT / 2);
}

static void offer(struct place *best, const struct place *place)
{
        if (!best->n_missing || cost_of(place) < cost_of(best))
                *best = *place;
}

/* Tries the place that begins with the hole at the end of a run, and goes up: over missing bytes, over empty runs,
 * and into the hole at the start of the next run if need be. */
static void try_above(const struct heap *heap, uint32_t at, uint64_t n_bytes, struct place *best)
{
        uint64_t n_have = free_below_end(heap, at), end = end_of(heap->blocks[at]);
        struct place place = {.start = end - n_have};

        for (;;) {
                uint64_t n_room = arena_room_above(heap->arena, end);
                uint64_t n_more, n_next, n_run;

                /* Another thread has freed enough meanwhile. */
                if (n_have >= n_bytes)
                        return;
                n_more = round_up(n_bytes - n_have);
                if (n_room && ++place.n_gaps > GAPS_MAX)
                        return;
                if (n_more <= n_room) {
                        place.n_missing += n_more;
                        place.end = end + n_more;
                        offer(best, &place);
                        return;
                }
                /* The gap is filled up to the next block, which must be the heap's own. */
                if (++at >= heap->n_blocks || heap->blocks[at]->at.start != end + n_room)
                        return;
                n_next = free_above_start(heap, at);
                place.n_missing += n_room;
                n_have += n_room + n_next;
                place.end = end + n_room + n_next;
                if (n_have >= n_bytes) {
                        offer(best, &place);
                        return;
                }
                n_run = heap->blocks[at]->at.start;
                at = last_of_run(heap, at);
                end = end_of(heap->blocks[at]);
                if (end - n_run != n_next)
                        return;
        }
}

/* The same downwards from the hole at the start of a run. */
static void try_below(const struct heap *heap, uint32_t at, uint64_t n_bytes, struct place *best)
{
        uint64_t start = heap->blocks[at]->at.start, n_have = free_above_start(heap, at);
        uint64_t n_more = round_up(n_bytes - n_have);
        struct place place = {
                .start = start - n_more, .end = start + n_have, .n_missing = n_more, .n_gaps = 1};

        if (n_have < n_bytes && arena_room_below(heap->arena, start) >= n_more)
                offer(best, &place);
}

static enum arena_wish wish_of(const struct heap *heap, uint64_t n_bytes)
{
        if (heap->runs == HEAP_SPLIT)
                return ARENA_CLOSE;
        if (n_bytes >= PLACEMENT_LARGE)
                return ARENA_LARGE;
        return n_bytes < PLACEMENT_SMALL ? ARENA_SMALL : ARENA_MEDIUM;
}

/* A run of its own. */
static int choose_new(const struct heap *heap, uint64_t n_bytes, enum arena_wish wish,
                      struct place *ret_place)
{
        uint64_t start;
        int r = arena_choose(heap->arena, n_bytes, wish, &start);

        if (r)
                return r;
        *ret_place = (struct place){
                .start = start, .end = start + n_bytes, .n_missing = n_bytes, .n_gaps = 1};
        return 0;
}

static int choose(const struct heap *heap, uint64_t n_bytes, const struct arena_range *part,
                  struct place *ret_place)
{
        struct place best = {.n_missing = 0};

        for (uint32_t at = 0; heap->runs == HEAP_JOINED && at < heap->n_blocks; at++) {
                uint64_t start = heap->blocks[at]->at.start;

                if (start < part->start || start >= part->end)
                        continue;
                if (heap->blocks[at]->edges.after)
                        try_above(heap, at, n_bytes, &best);
                if (heap->blocks[at]->edges.before)
                        try_below(heap, at, n_bytes, &best);
        }
        if (!best.n_missing)
                return choose_new(heap, round_up(n_bytes), wish_of(heap, n_bytes), ret_place);
        *ret_place = best;
        return 0;
}

/* Makes the place longer than the request needs, where addresses next to it are free. A place that is a run of its
 * own grows downwards, so that it stands close to what is above it. */
static void extend(const struct heap *heap, struct place *place, uint64_t n_wanted,
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

static uint64_t larger(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

/* Cuts the gaps of a place into blocks. -E2BIG: they are more than a placement holds. */
static int cut(const struct heap *heap, const struct place *place, uint64_t n_block_bytes,
               struct placement *placement)
{
        uint64_t at = place->start & ~(HEAP_BLOCK_UNIT - 1);

        placement->n_parts = 0;
        placement->n_bytes = 0;
        while (at < place->end) {
                const struct arena_block *block = arena_find(heap->arena, at);
                uint64_t n_gap;

                if (block) {
                        at = block->start + block->n_bytes;
                        continue;
                }
                n_gap = arena_room_above(heap->arena, at);
                if (n_gap > place->end - at)
                        n_gap = round_up(place->end - at);
                if (n_gap > n_block_bytes)
                        n_gap = n_block_bytes;
                if (placement->n_parts == PLACEMENT_PARTS)
                        return -E2BIG;
                placement->parts[placement->n_parts++] = (struct arena_block){at, n_gap};
                placement->n_bytes += n_gap;
                at += n_gap;
        }
        return 0;
}

/* Doubles the block size until the blocks are few enough. At worst each gap is one block, and there are at most
 * GAPS_MAX of them. */
static void cut_well(const struct heap *heap, const struct place *place, uint64_t n_block_bytes,
                     struct placement *placement)
{
        while (cut(heap, place, n_block_bytes, placement))
                n_block_bytes *= 2;
        placement->start = place->start;
        placement->end = place->end;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static uint64_t block_bytes(const struct heap *heap, uint64_t n_bytes,
                            const struct placement_terms *terms)
{
        unsigned n_parts = terms->n_parts ? terms->n_parts : REQUEST_PART;
        uint64_t n_block_bytes = larger(terms->n_block_bytes, n_bytes / n_parts);

        if (heap->runs == HEAP_SPLIT)
                return UINT64_MAX / 4;
        if (n_bytes >= PLACEMENT_LARGE)
                n_block_bytes = larger(n_block_bytes, terms->n_peak_bytes / LARGE_PEAK_PART);
        n_block_bytes = larger(n_block_bytes, larger(terms->n_least_bytes, BLOCK_LEAST));
        return smaller(round_common(n_block_bytes), BLOCK_MOST);
}

/* What is wanted beyond the request. */
static uint64_t wanted_bytes(const struct heap *heap, const struct placement_terms *terms)
{
        if (heap->runs == HEAP_SPLIT)
                return smaller(heap->n_reserved_bytes / SPLIT_GROWTH, SPLIT_MAX);
        return larger(terms->n_peak_bytes / AHEAD_PART, terms->n_least_bytes);
}

int placement_plan(const struct heap *heap, uint64_t n_bytes, const struct placement_terms *terms,
                   struct placement *ret_placement)
{
        uint64_t n_least = terms->n_least_bytes;
        struct arena_range part;
        struct place place;
        int r;

        if (n_bytes > UINT64_MAX / 2)
                return GPUMEM_E_TOO_LARGE;
        part = arena_part(heap->arena, terms->n_parts ? ARENA_CLOSE : wish_of(heap, n_bytes));
        r = choose(heap, n_bytes, &part, &place);
        if (r)
                return r;
        extend(heap, &place, wanted_bytes(heap, terms), larger(terms->n_spare_bytes, n_least));
        /* If there are no addresses for a longer run, a short one must do. */
        if (heap->runs == HEAP_JOINED && place.n_missing < n_least)
                (void)choose_new(heap, larger(round_up(n_bytes), n_least), wish_of(heap, n_bytes),
                                 &place);
        cut_well(heap, &place, block_bytes(heap, n_bytes, terms), ret_placement);
        return 0;
}
