/* When the frees of a heap are to look for what could go back, or be another heap's: once in so many
 * frees; sooner when there was more than could go; where other heaps lacked blocks, for a while, each
 * time when a part of what the heap holds was freed; and where there are other heaps, when nothing is
 * allocated any more: it may be the last free of a stream that is about to end, whose memory nobody could
 * ever know to be idle without an event. Pure; under the heap's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/space.h"

#define LOOKS_FREES      128
#define LOOKS_FREES_SOON 32

/* So many looks for others. */
#define LOOKS_WANTED 16

struct looks {
        uint32_t n_until; /* frees */
        uint32_t n_wanted;
        uint64_t n_bytes;        /* freed in the epoch */
        uint64_t n_record_bytes; /* what is freed from one record to the next */
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

/* After a free: it is time. */
static inline bool looks_count_free(struct looks *looks, const struct heap *heap)
{
        if (--looks->n_until && heap->n_freed_bytes < looks->n_bytes && !looks_is_last(looks, heap))
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

/* Where blocks are shelved: so much may be freed before a record says how far the stream has come, so
 * that the rest can be known to be idle. */
#define LOOKS_RECORD_BYTES (64 * MIB)

static inline bool looks_are_due(const struct looks *looks, const struct heap *heap)
{
        return heap->n_freed_bytes >= looks->n_bytes || looks_is_last(looks, heap);
}

/* Somebody has looked at the pool: the next record is due after so much, or sooner. */
void looks_lower(struct looks *looks);

/* A record was made, or cannot be. The next one is due after a part more than the last one was, until
 * somebody looks: a loop that frees much in little time records a few times only, and of a burst that
 * ends all but a part is known. Where another heap lacks blocks it is due sooner, a few times. */
void looks_raise(struct looks *looks, const struct space *space, const struct heap *heap);
