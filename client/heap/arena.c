/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/arena.h"

/* A block in two places would be memory allocated twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int arena_new_span(uint64_t start, uint64_t n_bytes, struct arena **ret_arena)
{
        struct arena *arena = aligned_alloc(_Alignof(struct arena), sizeof(*arena));

        if (!arena)
                return -ENOMEM;
        memset(arena, 0, sizeof(*arena));
        arena->granules = calloc(n_bytes / ARENA_GRANULE, sizeof(*arena->granules));
        if (!arena->granules) {
                free(arena);
                return -ENOMEM;
        }
        arena->start = start;
        arena->n_bytes = n_bytes;
        *ret_arena = arena;
        return 0;
}

int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena)
{
        struct arena *arena = NULL;
        int r = arena_new_span(start, n_bytes, &arena);

        if (!r)
                r = arena_add(arena, start, n_bytes);
        if (r) {
                arena_free(arena);
                return r;
        }
        *ret_arena = arena;
        return 0;
}

/* The first range that ends above the address. */
static uint32_t range_above(const struct arena *arena, uint64_t address)
{
        uint32_t index = 0;

        while (index < arena->n_ranges && arena->ranges[index].end <= address)
                index++;
        return index;
}

int arena_add(struct arena *arena, uint64_t start, uint64_t n_bytes)
{
        struct arena_range range = {start, start + n_bytes}, *ranges;
        uint32_t index = range_above(arena, start);

        if (start < arena->start || n_bytes > arena->n_bytes ||
            start - arena->start > arena->n_bytes - n_bytes)
                return -ERANGE;
        assert((start | n_bytes) % ARENA_GRANULE == 0);
        assert(arena->ranges || (arena->n_ranges == 0 && index == 0));
        assert(index == arena->n_ranges || arena->ranges[index].start >= range.end);
        if (index && arena->ranges[index - 1].end == range.start)
                range.start += ARENA_GRANULE;
        if (index < arena->n_ranges && arena->ranges[index].start == range.end)
                range.end -= ARENA_GRANULE;
        if (range.start >= range.end)
                return -ERANGE;
        ranges = reallocarray(arena->ranges, arena->n_ranges + 1, sizeof(*ranges));
        if (!ranges)
                return -ENOMEM;
        memmove(&ranges[index + 1], &ranges[index], (arena->n_ranges - index) * sizeof(*ranges));
        ranges[index] = range;
        arena->ranges = ranges;
        arena->n_ranges++;
        return 0;
}

struct arena *arena_free(struct arena *arena)
{
        if (!arena)
                return NULL;
        free(arena->blocks);
        free(arena->granules);
        free(arena->ranges);
        free(arena);
        return NULL;
}

uint64_t arena_start(const struct arena *arena)
{
        return arena->start;
}

/* The first block that starts above the address. */
static uint32_t first_above(const struct arena *arena, uint64_t address)
{
        uint32_t low = 0, high = arena->n_blocks;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (arena->blocks[middle]->start > address)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

/* The free bytes from an address in the range up to the next block, or to the range's end. */
static uint64_t gap_from(const struct arena *arena, const struct arena_range *range,
                         uint64_t address)
{
        /* A block that starts at the address leaves no gap. */
        uint32_t index = address ? first_above(arena, address - 1) : 0;

        if (index < arena->n_blocks && arena->blocks[index]->start < range->end)
                return arena->blocks[index]->start - address;
        return range->end - address;
}

struct gap {
        uint64_t start;
        uint64_t n_bytes;
        bool is_first; /* the first gap of its range, or of the part of it */
};

/* The largest gap of the part of a range between the two addresses. */
static void find_largest(const struct arena *arena, const struct arena_range *range,
                         const struct arena_range *part, struct gap *largest)
{
        uint64_t first = range->start > part->start ? range->start : part->start;
        uint64_t end = range->end < part->end ? range->end : part->end, address = range->start;

        for (uint32_t i = first_above(arena, range->start - 1); address < end; i++) {
                uint64_t above = address + gap_from(arena, range, address);
                struct gap gap = {.start = address > first ? address : first};

                gap.is_first = gap.start == first;
                if (above > gap.start)
                        gap.n_bytes = (above < end ? above : end) - gap.start;
                if (gap.n_bytes > largest->n_bytes)
                        *largest = gap;
                if (above >= end)
                        break;
                address = arena->blocks[i]->start + arena->blocks[i]->n_bytes;
        }
}

static struct gap largest_of(const struct arena *arena, const struct arena_range *part)
{
        struct gap largest = {.n_bytes = 0};

        for (uint32_t i = 0; i < arena->n_ranges; i++)
                find_largest(arena, &arena->ranges[i], part, &largest);
        return largest;
}

struct arena_range arena_part(const struct arena *arena, enum arena_wish wish)
{
        uint64_t quarter = arena->n_bytes / 4 & ~(ARENA_GRANULE - 1);

        switch (wish) {
        case ARENA_SMALL:
                return (struct arena_range){0, arena->start + quarter};
        case ARENA_MEDIUM:
                return (struct arena_range){arena->start + quarter, arena->start + 2 * quarter};
        case ARENA_LARGE:
                return (struct arena_range){arena->start + 2 * quarter, UINT64_MAX};
        case ARENA_CLOSE:
                break;
        }
        return (struct arena_range){0, UINT64_MAX};
}

static struct gap choose_gap(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish)
{
        struct arena_range part = arena_part(arena, wish), all = arena_part(arena, ARENA_CLOSE);
        struct gap gap = largest_of(arena, &part);

        return gap.n_bytes >= n_bytes ? gap : largest_of(arena, &all);
}

int arena_choose(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish,
                 uint64_t *ret_start)
{
        struct gap gap = choose_gap(arena, n_bytes, wish);

        if (gap.n_bytes < n_bytes)
                return -ENOMEM;
        *ret_start = gap.start;
        if (wish == ARENA_CLOSE)
                *ret_start += gap.n_bytes - n_bytes;
        else if (!gap.is_first)
                *ret_start += (gap.n_bytes - n_bytes) / 2 & ~(ARENA_GRANULE - 1);
        return 0;
}

uint64_t arena_room_above(const struct arena *arena, uint64_t address)
{
        uint32_t index = range_above(arena, address);

        if (index == arena->n_ranges || arena->ranges[index].start > address)
                return 0;
        return gap_from(arena, &arena->ranges[index], address);
}

uint64_t arena_room_below(const struct arena *arena, uint64_t address)
{
        uint32_t block = first_above(arena, address - 1), range = range_above(arena, address - 1);
        const struct arena_block *before = block ? arena->blocks[block - 1] : NULL;
        uint64_t start;

        if (range == arena->n_ranges || arena->ranges[range].start >= address)
                return 0;
        start = arena->ranges[range].start;
        return address -
               (before && before->start >= start ? before->start + before->n_bytes : start);
}

static int make_room(struct arena *arena)
{
        uint32_t n_room = arena->n_room ? arena->n_room * 2 : 64;
        struct arena_block **blocks;

        if (arena->n_blocks < arena->n_room)
                return 0;
        blocks = realloc(arena->blocks, n_room * sizeof(struct arena_block *));
        if (!blocks)
                return -ENOMEM;
        arena->blocks = blocks;
        arena->n_room = n_room;
        return 0;
}

static void mark(struct arena *arena, const struct arena_block *where, struct arena_block *what)
{
        uint64_t first = (where->start - arena->start) / ARENA_GRANULE;

        for (uint64_t i = 0; i < where->n_bytes / ARENA_GRANULE; i++)
                atomic_store_explicit(&arena->granules[first + i], what, memory_order_release);
}

int arena_put(struct arena *arena, struct arena_block *block)
{
        uint32_t index = first_above(arena, block->start);
        int r;

        assert(block->n_bytes && (block->start | block->n_bytes) % ARENA_GRANULE == 0);
        assert(arena_room_above(arena, block->start) >= block->n_bytes);
        assert(!arena_find(arena, block->start));
        r = make_room(arena);
        if (r)
                return r;
        memmove(&arena->blocks[index + 1], &arena->blocks[index],
                (arena->n_blocks - index) * sizeof(struct arena_block *));
        arena->blocks[index] = block;
        arena->n_blocks++;
        mark(arena, block, block);
        return 0;
}

void arena_take_out(struct arena *arena, struct arena_block *block)
{
        uint32_t index = first_above(arena, block->start - 1);

        assert(index < arena->n_blocks && arena->blocks[index] == block);
        mark(arena, block, NULL);
        arena->n_blocks--;
        memmove(&arena->blocks[index], &arena->blocks[index + 1],
                (arena->n_blocks - index) * sizeof(struct arena_block *));
}

struct arena_block *arena_next(const struct arena *arena, uint64_t address)
{
        uint32_t index = address ? first_above(arena, address - 1) : 0;

        return index < arena->n_blocks ? arena->blocks[index] : NULL;
}
