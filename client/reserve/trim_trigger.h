/* SPDX-License-Identifier: Apache-2.0 */
/* Decides after which frees a heap is scanned for empty blocks, which are returned or moved to another heap.
 *   - Always: once in TRIM_TRIGGER_FREES frees; earlier if the last look left more than the budget.
 *   - If other heaps lacked blocks: for a while, whenever a part of what the heap holds was freed.
 *   - If there are other heaps: also when nothing is allocated any more. That may be the last free of a stream that is
 *     about to end, and without an event its memory could never be known to be idle.
 * Pure; the caller has the heap's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/reserve/heap_set.h"

#define TRIM_TRIGGER_FREES      128
#define TRIM_TRIGGER_FREES_SOON 32

/* For so many looks, the lack of another heap counts. */
#define TRIM_TRIGGER_LACKS 16

struct trim_trigger {
        uint32_t n_until; /* frees */
        uint32_t n_lacks;
        uint64_t n_bytes;       /* freed in the epoch before a look is due */
        uint64_t n_top_bytes;   /* most bytes allocated since the last record */
        uint64_t n_below_bytes; /* falls that end below it count; 0: the idle list is not used */
        uint64_t
                n_low_bytes; /* least bytes allocated at a record since the last look at the pool */
        uint64_t n_record_bytes; /* how much is freed from one record to the next */
        uint32_t n_falls;        /* records since the last look for falls to no new low */
        bool has_others;         /* there are other heaps, or were */
};

void trim_trigger_init(struct trim_trigger *trigger);

/* There is another heap. */
void trim_trigger_note_other(struct trim_trigger *trigger);

/* Another heap lacks blocks, or may. */
void trim_trigger_note_lack(struct trim_trigger *trigger);

/* Nothing is allocated, and other heaps may want the memory. */
static inline bool trim_trigger_is_last(const struct trim_trigger *trigger, const struct heap *heap)
{
        return trigger->has_others && !heap->n_requested_bytes;
}

/* With an idle list: so much may be freed before a record marks how far the stream has come, so that the rest can be
 * known to be idle. */
#define TRIM_TRIGGER_RECORD_BYTES (64 * MIB)

/* A fall: at least TRIM_TRIGGER_RECORD_BYTES less is allocated than at some time since the last record. After the
 * last of many frees no thread can make a record any more, so what is freed is recorded in parts of that size. A loop
 * that frees and allocates in turn would make a record each time. So the records between two looks are limited:
 * TRIM_TRIGGER_FALLS for any fall; TRIM_TRIGGER_FALLS_LOW for falls to about the lowest level;
 * TRIM_TRIGGER_FALLS_DEEP for those by half at least. A fall to a new low always counts. */
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

static ALWAYS_INLINE bool trim_trigger_fell(const struct trim_trigger *trigger,
                                            const struct heap *heap)
{
        uint64_t n_bytes = trim_trigger_allocated(heap);

        return n_bytes < trigger->n_below_bytes &&
               n_bytes + TRIM_TRIGGER_RECORD_BYTES <= trigger->n_top_bytes &&
               (trigger->n_falls < TRIM_TRIGGER_FALLS_LOW || n_bytes <= trigger->n_top_bytes / 2 ||
                trim_trigger_is_lowest(trigger, n_bytes));
}

/* So much was freed: in the order of the heap's stream, whose work may not be over; or after all work was over. */
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

/* Called after a free: is a look due? */
static inline bool trim_trigger_count_free(struct trim_trigger *trigger, const struct heap *heap)
{
        bool is_early = --trigger->n_until && heap->n_freed_bytes < trigger->n_bytes &&
                        !trim_trigger_fell(trigger, heap) && !trim_trigger_is_last(trigger, heap);

        if (__builtin_expect(is_early, true))
                return false;
        trigger->n_until = TRIM_TRIGGER_FREES;
        return true;
}

/* Must the look ask how far the stream has come, even if nothing is above the budget? */
static inline bool trim_trigger_asks(const struct trim_trigger *trigger, const struct heap *heap)
{
        return trigger->n_lacks || trim_trigger_is_last(trigger, heap);
}

/* A look was made; n_excess_bytes more than the budget are still held. */
void trim_trigger_done(struct trim_trigger *trigger, const struct heap_set *set,
                       const struct heap *heap, uint64_t n_excess_bytes);

static inline bool trim_trigger_is_due(const struct trim_trigger *trigger, const struct heap *heap)
{
        return heap->n_freed_bytes >= trigger->n_bytes || trim_trigger_fell(trigger, heap) ||
               trim_trigger_is_last(trigger, heap);
}

/* The pool was looked at: the next record is due after TRIM_TRIGGER_RECORD_BYTES, or sooner. */
void trim_trigger_lower(struct trim_trigger *trigger);

/* A record was made, or cannot be made. Until the next look, each record is due after half more than the one before;
 * falls to a new low do not count. So a loop that frees much in little time makes a few records only. If another heap
 * lacks blocks the next one is due sooner, a few times. */
void trim_trigger_raise(struct trim_trigger *trigger, const struct heap_set *set,
                        const struct heap *heap);
