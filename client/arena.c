#include "client/arena.h"

/* A block in two places is memory handed out twice: asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena)
{
        struct arena *arena = calloc(1, sizeof(*arena));

        if (!arena)
                return -ENOMEM;
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

struct arena *arena_free(struct arena *arena)
{
        if (!arena)
                return NULL;
        free(arena->blocks);
        free(arena->granules);
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

/* The gap before the block of that index, or before the end. */
static uint64_t gap_before(const struct arena *arena, uint32_t index, uint64_t *ret_start)
{
        const struct arena_block *before = index ? arena->blocks[index - 1] : NULL;
        uint64_t end = index < arena->n_blocks ? arena->blocks[index]->start
                                               : arena->start + arena->n_bytes;

        *ret_start = before ? before->start + before->n_bytes : arena->start;
        return end - *ret_start;
}

int arena_choose(const struct arena *arena, uint64_t n_bytes, enum arena_wish wish,
                 uint64_t *ret_start)
{
        uint64_t n_largest = 0, start = 0;
        uint32_t largest = 0;

        for (uint32_t i = 0; i <= arena->n_blocks; i++) {
                uint64_t at, n_gap = gap_before(arena, i, &at);

                if (n_gap > n_largest) {
                        n_largest = n_gap;
                        largest = i;
                        start = at;
                }
        }
        if (n_largest < n_bytes)
                return -ENOMEM;
        if (wish == ARENA_CLOSE)
                start += n_largest - n_bytes;
        else if (largest > 0)
                start += (n_largest - n_bytes) / 2 & ~(ARENA_GRANULE - 1);
        *ret_start = start;
        return 0;
}

uint64_t arena_room_above(const struct arena *arena, uint64_t address)
{
        /* A block that starts at the address leaves none. */
        uint32_t index = first_above(arena, address - 1);
        uint64_t end = index < arena->n_blocks ? arena->blocks[index]->start
                                               : arena->start + arena->n_bytes;

        return end - address;
}

uint64_t arena_room_below(const struct arena *arena, uint64_t address)
{
        uint32_t index = first_above(arena, address - 1);
        const struct arena_block *before = index ? arena->blocks[index - 1] : NULL;

        return address - (before ? before->start + before->n_bytes : arena->start);
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
        uint32_t index = first_above(arena, address - 1);

        return index < arena->n_blocks ? arena->blocks[index] : NULL;
}
