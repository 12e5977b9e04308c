/* SPDX-License-Identifier: Apache-2.0 */
/* Decides after which frees a heap is scanned for empty blocks. Which of them go back to the daemon, empty_blocks.h says; which
 * move to another heap, heap_set.h.
 *   - Always: once in SCAN_TRIGGER_FREES frees; earlier if the last look left more than the budget; and less often
 *     where there are many heaps, since a look is linear in them.
 *   - If other heaps lacked blocks: for a while, whenever a part of what the heap holds was freed.
 *   - If there are other heaps: also when nothing is allocated any more. That may be the last free of a stream that is
 *     about to end, and without an event its memory could never be known to be idle. This, too, is done as often as
 *     it is granted: a stream may allocate and free one piece in a loop. While there are no more blocks to lease it
 *     is done each time.
 *   - With an idle list: when much less is allocated than before, and when a block may have become empty, as often as
 *     this is granted. The program may make no call after any free, and no other thread may make the record.
 *   - With a cache size: when what is empty in all heaps together may exceed it.
 * Pure; the caller has the heap's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/reserve/heap_set.h"

#define SCAN_TRIGGER_FREES      128
#define SCAN_TRIGGER_FREES_SOON 32

/* Each so many heaps let a heap free SCAN_TRIGGER_FREES times more between two looks. */
#define SCAN_TRIGGER_HEAPS 16

/* For so many looks, the lack of another heap counts. */
#define SCAN_TRIGGER_LACKS 16

/* The fields that every free reads come first. */
struct scan_trigger {
        uint32_t n_until;         /* frees */
        uint32_t n_frees;         /* n_until after a look */
        bool has_others;          /* there are other heaps, or were */
        bool has_emptied;         /* blocks may have become empty since the last record */
        bool is_small;            /* the record that is under way is for that alone */
        bool is_short;            /* another heap lacks blocks, and none can be leased */
        uint64_t n_due_bytes;     /* freed in the epoch before a look is due */
        uint64_t n_watched_bytes; /* a hole of this size may be the first to empty a block */
        uint64_t n_top_bytes;     /* most bytes allocated since the last record */
        uint64_t n_below_bytes;   /* falls that end below it count; 0: the idle list is not used */
        uint64_t n_floor_bytes;   /* see scan_trigger_set_floor; without a cache size 0 */
        uint32_t n_lacks;
        uint32_t n_falls; /* records for falls to no new low since the last look at the pool */
        uint64_t n_bytes; /* n_due_bytes, if no block has become empty */
        uint64_t n_record_bytes; /* how much is freed from one record to the next */
        uint64_t n_low_bytes;    /* least bytes allocated at a record since that look */
        uint32_t n_small;        /* records of empty blocks are left, */
        uint32_t n_granted;      /* of so many */
        uint64_t n_small_bytes;  /* n_due_bytes for the next one */
        uint64_t next_grant_us;  /* see scan_trigger_grant_last */
};

void scan_trigger_init(struct scan_trigger *trigger);

/* Begins, or begins again with a cache size, or without one. */
void scan_trigger_begin_bounded(struct scan_trigger *trigger);

/* With an idle list: that many small records are granted. */
void scan_trigger_begin_unbounded(struct scan_trigger *trigger, uint32_t n_records,
                                  uint32_t n_heaps);

/* With a cache size: as long as each heap has its floor allocated, what is empty in all of them does not exceed it.
 * UINT64_MAX: it may be exceeded by each block that becomes empty. */
static inline void scan_trigger_set_floor(struct scan_trigger *trigger, uint64_t n_bytes)
{
        trigger->n_floor_bytes = n_bytes;
}

/* There is another heap. */
void scan_trigger_note_other(struct scan_trigger *trigger);

/* Another heap lacks blocks, or may; is_short: and none can be leased. */
void scan_trigger_note_lack(struct scan_trigger *trigger, bool is_short);

/* Blocks can be leased again: no heap may lack any afterwards, so nothing else would tell. */
static inline void scan_trigger_end_short(struct scan_trigger *trigger)
{
        trigger->is_short = false;
}

/* Nothing is allocated, and other heaps may want the memory. */
static inline bool scan_trigger_is_last(const struct scan_trigger *trigger, const struct heap *heap)
{
        return trigger->has_others && !heap->n_requested_bytes &&
               (trigger->n_small || trigger->is_short);
}

/* With an idle list: so much may be freed before a record marks how far the stream has come, so that the rest can be
 * known to be idle. */
#define SCAN_TRIGGER_RECORD_BYTES (64 * MIB)

/* A fall: at least SCAN_TRIGGER_RECORD_BYTES less is allocated than at some time since the last record. After the
 * last of many frees no thread can make a record any more, so what is freed is recorded in parts of that size. A loop
 * that frees and allocates in turn would make a record each time. So the records between two looks are limited:
 * SCAN_TRIGGER_FALLS for any fall; SCAN_TRIGGER_FALLS_LOW for falls to about the lowest level;
 * SCAN_TRIGGER_FALLS_DEEP for those by half at least. A fall to a new low always counts. */
#define SCAN_TRIGGER_FALLS      4
#define SCAN_TRIGGER_FALLS_LOW  16
#define SCAN_TRIGGER_FALLS_DEEP 64

static inline uint64_t scan_trigger_allocated(const struct heap *heap)
{
        return atomic_load_explicit(&heap->n_allocated_bytes, memory_order_relaxed);
}

static inline bool scan_trigger_is_lowest(const struct scan_trigger *trigger, uint64_t n_bytes)
{
        return n_bytes + SCAN_TRIGGER_RECORD_BYTES <= trigger->n_low_bytes;
}

static ALWAYS_INLINE bool scan_trigger_fell(const struct scan_trigger *trigger,
                                            const struct heap *heap)
{
        uint64_t n_bytes = scan_trigger_allocated(heap);

        return n_bytes < trigger->n_below_bytes &&
               n_bytes + SCAN_TRIGGER_RECORD_BYTES <= trigger->n_top_bytes &&
               (trigger->n_falls < SCAN_TRIGGER_FALLS_LOW || n_bytes <= trigger->n_top_bytes / 2 ||
                scan_trigger_is_lowest(trigger, n_bytes));
}

/* Small records: of blocks that may have become empty, however little was freed. So many are granted at a time. With
 * each part of them, more must be freed before the next one, so that a loop does not use all of them up at once. As
 * less is left in the heap, less needs to be freed: so a burst is recorded to its end. */
#define SCAN_TRIGGER_SMALL      256
#define SCAN_TRIGGER_SMALL_PART 16

/* Many heaps share so many, but each has SCAN_TRIGGER_SMALL_LEAST. Between two grants new heaps share as many again:
 * a heap begins again whenever its last block was taken from it. */
#define SCAN_TRIGGER_SMALL_ALL   4096
#define SCAN_TRIGGER_SMALL_LEAST 2

/* They are granted so often that those of one heap take about a hundredth of the time at most: one in 64 registered
 * streams takes 10 us. */
#define SCAN_TRIGGER_GRANT_US 250000

/* A block may have become empty. */
COLD void scan_trigger_note_empty(struct scan_trigger *trigger);

/* This was freed: in the order of the heap's stream, whose work may not be over; or after all work was over. */
enum scan_trigger_free { SCAN_TRIGGER_FREE_ORDERED, SCAN_TRIGGER_FREE_OVER };
static inline void scan_trigger_note_free(struct scan_trigger *trigger, const struct heap *heap,
                                          const struct heap_freed *freed,
                                          enum scan_trigger_free how)
{
        uint64_t n_before = scan_trigger_allocated(heap) + freed->n_allocated_bytes;

        if (trigger->n_top_bytes < n_before)
                trigger->n_top_bytes = n_before;
        if (how == SCAN_TRIGGER_FREE_OVER)
                trigger->n_top_bytes -= freed->n_allocated_bytes;
        else if (__builtin_expect(freed->n_extent_bytes >= trigger->n_watched_bytes, false))
                scan_trigger_note_empty(trigger);
}

/* Called after a free: is a look due? */
static inline bool scan_trigger_count_free(struct scan_trigger *trigger, const struct heap *heap)
{
        bool is_early = --trigger->n_until && heap->n_freed_bytes < trigger->n_due_bytes &&
                        !scan_trigger_fell(trigger, heap) && !scan_trigger_is_last(trigger, heap);

        if (__builtin_expect(is_early, true))
                return false;
        trigger->n_until = trigger->n_frees;
        return true;
}

/* Called after a free: may the cache size be exceeded? If the heap fell to below its floor, the others' are wrong now. */
static inline bool scan_trigger_may_exceed(const struct scan_trigger *trigger,
                                           const struct heap *heap, const struct heap_freed *freed)
{
        uint64_t n_bytes = scan_trigger_allocated(heap);

        return n_bytes < trigger->n_floor_bytes &&
               (freed->n_extent_bytes >= HEAP_BLOCK_UNIT ||
                n_bytes + freed->n_allocated_bytes >= trigger->n_floor_bytes);
}

/* Must the look ask how far the stream has come, even if nothing is above the budget? */
static inline bool scan_trigger_asks(const struct scan_trigger *trigger, const struct heap *heap)
{
        return trigger->n_lacks || scan_trigger_is_last(trigger, heap);
}

/* Is a record due that no later free may make up for? */
static inline bool scan_trigger_is_pressing(const struct scan_trigger *trigger,
                                            const struct heap *heap)
{
        return scan_trigger_fell(trigger, heap) ||
               (trigger->has_emptied && heap->n_freed_bytes >= trigger->n_small_bytes);
}

/* Another thread looks now, and no record is pressing: one that is due is tried again after a part of what it takes. The
 * other thread may not run for milliseconds, in which each free would try in vain. */
#define SCAN_TRIGGER_POSTPONE_PART 8
void scan_trigger_postpone(struct scan_trigger *trigger, const struct heap *heap);

/* With a cache size: a look was made; n_excess_bytes more than the budget are still held. */
void scan_trigger_done(struct scan_trigger *trigger, const struct heap_set *set,
                       const struct heap *heap, uint64_t n_excess_bytes);

/* The pool was looked at: the next record is due after SCAN_TRIGGER_RECORD_BYTES, or sooner. */
void scan_trigger_lower(struct scan_trigger *trigger);

/* How many small records each of so many heaps is granted. */
uint32_t scan_trigger_share(uint32_t n_heaps);

/* How many a new heap is: a part of what is left of SCAN_TRIGGER_SMALL_ALL since the last grant. */
uint32_t scan_trigger_first_share(uint32_t *n_left);

/* That many small records are granted to this one of n_heaps. */
void scan_trigger_grant(struct scan_trigger *trigger, uint32_t n_records, uint32_t n_heaps);

/* With a cache size, where no look at the whole pool grants records: this heap, which looks now, gets those of its last
 * frees, if it is time. */
void scan_trigger_grant_last(struct scan_trigger *trigger, uint32_t n_heaps, uint64_t now_us);

static inline bool scan_trigger_is_granted(const struct scan_trigger *trigger)
{
        return trigger->n_small == trigger->n_granted;
}

/* Is there an empty block, perhaps, that no record covers? */
static inline bool scan_trigger_is_owed(const struct scan_trigger *trigger, const struct heap *heap)
{
        return trigger->has_emptied && heap->n_freed_bytes;
}

/* A record was made that was not due. */
void scan_trigger_note_record(struct scan_trigger *trigger, const struct heap *heap);

/* Is a record due? If so, scan_trigger_raise must follow. */
bool scan_trigger_begin_record(struct scan_trigger *trigger, const struct heap *heap);

/* A record was made, or cannot be made. Until the next look, each record is due after half more than the one before;
 * falls to a new low do not count. So a loop that frees much in little time makes a few records only. If another heap
 * lacks blocks the next one is due sooner, a few times. */
void scan_trigger_raise(struct scan_trigger *trigger, const struct heap_set *set,
                        const struct heap *heap);
