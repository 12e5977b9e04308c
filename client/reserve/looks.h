/* When the frees of a heap are to look for what could go back, or be another heap's: once in so many
 * frees; sooner when there was more than could go; where other heaps lacked blocks, for a while, each
 * time when a part of what the heap holds was freed; and where there are other heaps, when nothing is
 * allocated any more: it may be the last free of a stream that is about to end, whose memory nobody could
 * ever know to be idle without an event. Pure; under the heap's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/reserve/space.h"

#define LOOKS_FREES      128
#define LOOKS_FREES_SOON 32

/* So many looks for others. */
#define LOOKS_WANTED 16

struct looks {
        uint32_t n_until; /* frees */
        uint32_t n_wanted;
        uint64_t n_bytes;        /* freed in the epoch */
        uint64_t n_record_bytes; /* what is freed from one record to the next */
        uint64_t n_top_bytes;    /* most that was allocated since the last record */
        uint64_t n_low_bytes;    /* least that was at a record, since somebody looked at the pool */
        uint32_t n_falls;        /* records for falls to no new low, since then */
        uint64_t n_below_bytes;  /* falls count that end below that; 0: blocks are not shelved */
        bool has_others;         /* or had */
};

void looks_init(struct looks *looks);

/* There is another heap. */
void looks_meet(struct looks *looks);

/* Another heap lacks blocks, or may. */
void looks_want(struct looks *looks);

/* Nothing is allocated. */
static inline bool looks_is_last(const struct looks *looks, const struct heap *heap)
{
        return looks->has_others && !heap->n_requested_bytes;
}

/* Where blocks are shelved: so much may be freed before a record says how far the stream has come, so
 * that the rest can be known to be idle. */
#define LOOKS_RECORD_BYTES (64 * MIB)

/* That much less is allocated than once since the last record, and it matters: after the last free of
 * many nobody else can make a record, so what is let go of is recorded in parts of that size. A loop that
 * lets go and allocates again would have a record each time: from one look to the next these are a few for
 * any fall, some for those that come as low as the lowest, more for such ones by half at least, and all for
 * those that come lower still. */
#define LOOKS_FALLS      4
#define LOOKS_FALLS_LOW  16
#define LOOKS_FALLS_DEEP 64

static inline uint64_t looks_allocated(const struct heap *heap)
{
        return atomic_load_explicit(&heap->n_allocated_bytes, memory_order_relaxed);
}

static inline bool looks_is_lowest(const struct looks *looks, uint64_t n_bytes)
{
        return n_bytes + LOOKS_RECORD_BYTES <= looks->n_low_bytes;
}

static inline bool looks_fell(const struct looks *looks, const struct heap *heap)
{
        uint64_t n_bytes = looks_allocated(heap);

        return n_bytes < looks->n_below_bytes &&
               n_bytes + LOOKS_RECORD_BYTES <= looks->n_top_bytes &&
               (looks->n_falls < LOOKS_FALLS_LOW || n_bytes <= looks->n_top_bytes / 2 ||
                looks_is_lowest(looks, n_bytes));
}

/* So much was freed: in the order of the heap's stream, whose work may not be over, or so that it is. */
enum looks_free { LOOKS_FREE_ORDERED, LOOKS_FREE_OVER };
static inline void looks_note_free(struct looks *looks, const struct heap *heap, uint64_t n_bytes,
                                   enum looks_free how)
{
        uint64_t n_before = looks_allocated(heap) + n_bytes;

        if (looks->n_top_bytes < n_before)
                looks->n_top_bytes = n_before;
        if (how == LOOKS_FREE_OVER)
                looks->n_top_bytes -= n_bytes;
}

/* After a free: it is time. */
static inline bool looks_count_free(struct looks *looks, const struct heap *heap)
{
        bool is_early = --looks->n_until && heap->n_freed_bytes < looks->n_bytes &&
                        !looks_fell(looks, heap) && !looks_is_last(looks, heap);

        if (__builtin_expect(is_early, true))
                return false;
        looks->n_until = LOOKS_FREES;
        return true;
}

/* The look is to find out how far the stream has come, though nothing is above the budget. */
static inline bool looks_ask(const struct looks *looks, const struct heap *heap)
{
        return looks->n_wanted || looks_is_last(looks, heap);
}

/* It was looked; n_excess_bytes more than the budget are still held. */
void looks_done(struct looks *looks, const struct space *space, const struct heap *heap,
                uint64_t n_excess_bytes);

static inline bool looks_are_due(const struct looks *looks, const struct heap *heap)
{
        return heap->n_freed_bytes >= looks->n_bytes || looks_fell(looks, heap) ||
               looks_is_last(looks, heap);
}

/* Somebody has looked at the pool: the next record is due after so much, or sooner. */
void looks_lower(struct looks *looks);

/* A record was made, or cannot be. But for falls to a new low, the next one is due after a part more than
 * the last one was, until somebody looks: a loop that frees much in little time records a few times only.
 * Where another heap lacks blocks it is due sooner, a few times. */
void looks_raise(struct looks *looks, const struct space *space, const struct heap *heap);
