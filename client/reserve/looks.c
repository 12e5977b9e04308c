#include "client/reserve/looks.h"

/* A heap's frees are looked at when they come to that part of what it holds. */
#define LOOK_PART 16

/* There was no record since the last look; any fall comes to a new low. */
#define LOOKS_NO_LOW (UINT64_MAX / 2)

void looks_init(struct looks *looks)
{
        *looks = (struct looks){.n_until = LOOKS_FREES, .n_bytes = UINT64_MAX};
}

void looks_meet(struct looks *looks)
{
        looks->has_others = true;
}

void looks_want(struct looks *looks)
{
        if (!looks->n_wanted)
                looks->n_bytes = 0;
        looks->n_wanted = LOOKS_WANTED;
}

/* How much may be freed in the epoch. */
static uint64_t bytes_until(const struct heap *heap)
{
        uint64_t n_bytes = heap->n_reserved_bytes / LOOK_PART;

        return heap->n_freed_bytes + (n_bytes > HEAP_BLOCK_UNIT ? n_bytes : HEAP_BLOCK_UNIT);
}

void looks_done(struct looks *looks, const struct space *space, const struct heap *heap,
                uint64_t n_excess_bytes)
{
        looks->n_until = n_excess_bytes ? LOOKS_FREES_SOON : LOOKS_FREES;
        if (looks->n_wanted)
                looks->n_wanted--;
        looks->n_bytes = looks->n_wanted && space->n_heaps > 1 ? bytes_until(heap) : UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static uint64_t falls_below(const struct looks *looks)
{
        if (looks->n_falls < LOOKS_FALLS)
                return UINT64_MAX;
        if (looks->n_falls < LOOKS_FALLS_DEEP)
                return looks->n_low_bytes + LOOKS_RECORD_BYTES;
        return looks->n_low_bytes < LOOKS_RECORD_BYTES
                       ? 0
                       : looks->n_low_bytes - LOOKS_RECORD_BYTES + 1;
}

void looks_lower(struct looks *looks)
{
        looks->n_record_bytes = LOOKS_RECORD_BYTES;
        looks->n_bytes = least(looks->n_bytes, LOOKS_RECORD_BYTES);
        looks->n_low_bytes = LOOKS_NO_LOW;
        looks->n_falls = 0;
        looks->n_below_bytes = falls_below(looks);
}

/* It fell to where it was not since somebody looked: this may be the end of much. */
static bool fell_lowest(const struct looks *looks, const struct heap *heap)
{
        return looks_fell(looks, heap) && looks_is_lowest(looks, looks_allocated(heap));
}

/* What is allocated is what a fall begins at. */
static void count_record(struct looks *looks, const struct heap *heap)
{
        if (!fell_lowest(looks, heap)) {
                looks->n_falls += looks_fell(looks, heap);
                looks->n_record_bytes += looks->n_record_bytes / 2;
        }
        looks->n_top_bytes = looks_allocated(heap);
        looks->n_low_bytes = least(looks->n_low_bytes, looks->n_top_bytes);
        looks->n_below_bytes = falls_below(looks);
}

void looks_raise(struct looks *looks, const struct space *space, const struct heap *heap)
{
        count_record(looks, heap);
        looks->n_bytes = heap->n_freed_bytes + looks->n_record_bytes;
        if (!looks->n_wanted)
                return;
        looks->n_wanted--;
        if (space->n_heaps > 1)
                looks->n_bytes = least(looks->n_bytes, bytes_until(heap));
}
