/* SPDX-License-Identifier: Apache-2.0 */
/* Decides after which frees a heap is scanned for empty blocks, which go back or to another heap. That is once in so
 * many frees; sooner when there was more than could go. Where other heaps lacked blocks it is, for a while, each time
 * when a part of what the heap holds was freed. Where there are other heaps it is also when nothing is allocated any
 * more: that may be the last free of a stream that is about to end, whose memory could never be known to be idle
 * without an event. Pure; under the heap's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/reserve/heap_set.h"

#define TRIM_TRIGGER_FREES      128
#define TRIM_TRIGGER_FREES_SOON 32

/* So many looks for others. */
#define TRIM_TRIGGER_LACKS 16

struct trim_trigger {
        uint32_t n_until; /* frees */
        uint32_t n_lacks;
        uint64_t n_bytes;        /* freed in the epoch */
        uint64_t n_record_bytes; /* what is freed from one record to the next */
        uint64_t n_top_bytes;    /* most that was allocated since the last record */
        uint64_t n_low_bytes;    /* least that was at a record, since somebody looked at the pool */
        uint32_t n_falls;        /* records for falls to no new low, since then */
        uint64_t
                n_below_bytes; /* falls count that end below that; 0: blocks are not put on the idle list */
        bool has_others; /* or had */
};

void trim_trigger_init(struct trim_trigger *trigger);

/* There is another heap. */
void trim_trigger_note_other(struct trim_trigger *trigger);

/* Another heap lacks blocks, or may. */
void trim_trigger_note_lack(struct trim_trigger *trigger);

/* Nothing is allocated. */
static inline bool trim_trigger_is_last(const struct trim_trigger *trigger, const struct heap *heap)
{
        return trigger->has_others && !heap->n_requested_bytes;
}

/* Where blocks are put on the idle list: so much may be freed before a record says how far the stream has come, so that
 * the rest can be known to be idle. */
#define TRIM_TRIGGER_RECORD_BYTES (64 * MIB)

/* That much less is allocated than once since the last record, and it matters: after the last free of many nobody else
 * can make a record, so what is let go of is recorded in parts of that size. A loop that lets go and allocates again
 * would have a record each time: from one look to the next these are a few for any fall, some for those that come as
 * low as the lowest, more for such ones by half at least, and all for those that come lower still. */
#define TRIM_TRIGGER_FALLS      4
#define TRIM_TRIGGER_FALLS_LOW  16
#define TRIM_TRIGGER_FALLS_DEEP 64

static inline uint64_t trim_trigger_allocated(const struct heap *heap)
{
        return atomic_load_explicit(&heap->n_allocated_bytes, memory_order_relaxed);
}

static inline bool trim_trigger_is_lowest(const struct trim_trigger *trigger, uint64_t n_bytes)
{
        return n_bytes + TRIM_TRIGGER_RECORD_BYTES <= trigger->n_low_bytes;
}

static inline bool trim_trigger_fell(const struct trim_trigger *trigger, const struct heap *heap)
{
        uint64_t n_bytes = trim_trigger_allocated(heap);

        return n_bytes < trigger->n_below_bytes &&
               n_bytes + TRIM_TRIGGER_RECORD_BYTES <= trigger->n_top_bytes &&
               (trigger->n_falls < TRIM_TRIGGER_FALLS_LOW || n_bytes <= trigger->n_top_bytes / 2 ||
                trim_trigger_is_lowest(trigger, n_bytes));
}

/* So much was freed: in the order of the heap's stream, whose work may not be over, or so that it is. */
enum trim_trigger_free { TRIM_TRIGGER_FREE_ORDERED, TRIM_TRIGGER_FREE_OVER };
static inline void trim_trigger_note_free(struct trim_trigger *trigger, const struct heap *heap,
                                          uint64_t n_bytes, enum trim_trigger_free how)
{
        uint64_t n_before = trim_trigger_allocated(heap) + n_bytes;

        if (trigger->n_top_bytes < n_before)
                trigger->n_top_bytes = n_before;
        if (how == TRIM_TRIGGER_FREE_OVER)
                trigger->n_top_bytes -= n_bytes;
}

/* After a free: it is time. */
static inline bool trim_trigger_count_free(struct trim_trigger *trigger, const struct heap *heap)
{
        bool is_early = --trigger->n_until && heap->n_freed_bytes < trigger->n_bytes &&
                        !trim_trigger_fell(trigger, heap) && !trim_trigger_is_last(trigger, heap);

        if (__builtin_expect(is_early, true))
                return false;
        trigger->n_until = TRIM_TRIGGER_FREES;
        return true;
}

/* The look is to find out how far the stream has come, though nothing is above the budget. */
static inline bool trim_trigger_asks(const struct trim_trigger *trigger, const struct heap *heap)
{
        return trigger->n_lacks || trim_trigger_is_last(trigger, heap);
}

/* It was looked; n_excess_bytes more than the budget are still held. */
void trim_trigger_done(struct trim_trigger *trigger, const struct heap_set *set,
                       const struct heap *heap, uint64_t n_excess_bytes);

static inline bool trim_trigger_is_due(const struct trim_trigger *trigger, const struct heap *heap)
{
        return heap->n_freed_bytes >= trigger->n_bytes || trim_trigger_fell(trigger, heap) ||
               trim_trigger_is_last(trigger, heap);
}

/* Somebody has looked at the pool: the next record is due after so much, or sooner. */
void trim_trigger_lower(struct trim_trigger *trigger);

/* A record was made, or cannot be. But for falls to a new low, the next one is due after a part more than the last one
 * was, until somebody looks: a loop that frees much in little time records a few times only. Where another heap lacks
 * blocks it is due sooner, a few times. */
void trim_trigger_raise(struct trim_trigger *trigger, const struct heap_set *set,
                        const struct heap *heap);
