/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/scan_trigger.h"

#include "base/size.h"

/* With another heap in need, a look is due when this part of what the heap holds was freed. */
#define RECORD_PART 16

/* With small records: what is not recorded is this part of what is allocated, at most. Where that is hardly a block,
 * each block is recorded. */
#define SMALL_SHARE 32

/* No record since the last look: any fall is to a new low. */
#define SCAN_TRIGGER_NO_LOW (UINT64_MAX / 2)

void scan_trigger_init(struct scan_trigger *trigger)
{
        *trigger = (struct scan_trigger){.n_until = SCAN_TRIGGER_FREES,
                                         .n_frees = SCAN_TRIGGER_FREES,
                                         .n_small = SCAN_TRIGGER_SMALL,
                                         .n_granted = SCAN_TRIGGER_SMALL,
                                         .n_due_bytes = UINT64_MAX,
                                         .n_watched_bytes = UINT64_MAX,
                                         .n_bytes = UINT64_MAX,
                                         .n_small_bytes = UINT64_MAX};
}

static void begin(struct scan_trigger *trigger)
{
        bool has_others = trigger->has_others;

        scan_trigger_init(trigger);
        trigger->has_others = has_others;
}

/* The first look finds out where the floor is. */
void scan_trigger_begin_bounded(struct scan_trigger *trigger)
{
        begin(trigger);
        trigger->n_floor_bytes = UINT64_MAX;
}

void scan_trigger_begin_unbounded(struct scan_trigger *trigger, uint32_t n_records,
                                  uint32_t n_heaps)
{
        begin(trigger);
        scan_trigger_lower(trigger);
        scan_trigger_grant(trigger, n_records, n_heaps);
}

static void set_bytes(struct scan_trigger *trigger, uint64_t n_bytes)
{
        trigger->n_bytes = n_bytes;
        trigger->n_due_bytes = trigger->has_emptied ? size_smaller(n_bytes, trigger->n_small_bytes)
                                                    : n_bytes;
}

/* Holes are watched only while a small record is left. Otherwise a block counts as emptied. */
static void set_emptied(struct scan_trigger *trigger, bool has_emptied)
{
        trigger->has_emptied = has_emptied || !trigger->n_small;
        trigger->n_watched_bytes = trigger->has_emptied ? UINT64_MAX : HEAP_BLOCK_UNIT;
        set_bytes(trigger, trigger->n_bytes);
}

void scan_trigger_note_empty(struct scan_trigger *trigger)
{
        set_emptied(trigger, true);
}

void scan_trigger_note_other(struct scan_trigger *trigger)
{
        trigger->has_others = true;
}

void scan_trigger_note_lack(struct scan_trigger *trigger, bool is_short)
{
        trigger->is_short = is_short;
        if (!trigger->n_lacks)
                set_bytes(trigger, 0);
        trigger->n_lacks = SCAN_TRIGGER_LACKS;
}

/* How much may be freed in the epoch before a look is due. */
static uint64_t bytes_until(const struct heap *heap)
{
        uint64_t n_bytes = heap->n_reserved_bytes / RECORD_PART;

        return heap->n_freed_bytes + (n_bytes > HEAP_BLOCK_UNIT ? n_bytes : HEAP_BLOCK_UNIT);
}

void scan_trigger_postpone(struct scan_trigger *trigger, const struct heap *heap)
{
        uint64_t n_bytes = trigger->n_record_bytes / SCAN_TRIGGER_POSTPONE_PART;

        if (heap->n_freed_bytes >= trigger->n_bytes)
                set_bytes(trigger,
                          heap->n_freed_bytes + (trigger->n_lacks ? HEAP_BLOCK_UNIT : n_bytes));
}

void scan_trigger_done(struct scan_trigger *trigger, const struct heap_set *set,
                       const struct heap *heap, uint64_t n_excess_bytes)
{
        trigger->n_until = n_excess_bytes ? SCAN_TRIGGER_FREES_SOON : trigger->n_frees;
        if (trigger->n_small && scan_trigger_is_last(trigger, heap))
                trigger->n_small--;
        if (trigger->n_lacks)
                trigger->n_lacks--;
        set_bytes(trigger, trigger->n_lacks && set->n_heaps > 1 ? bytes_until(heap) : UINT64_MAX);
}

static uint64_t falls_below(const struct scan_trigger *trigger)
{
        if (trigger->n_falls < SCAN_TRIGGER_FALLS)
                return UINT64_MAX;
        if (trigger->n_falls < SCAN_TRIGGER_FALLS_DEEP)
                return trigger->n_low_bytes + SCAN_TRIGGER_RECORD_BYTES;
        return trigger->n_low_bytes < SCAN_TRIGGER_RECORD_BYTES
                       ? 0
                       : trigger->n_low_bytes - SCAN_TRIGGER_RECORD_BYTES + 1;
}

void scan_trigger_lower(struct scan_trigger *trigger)
{
        trigger->n_record_bytes = SCAN_TRIGGER_RECORD_BYTES;
        set_bytes(trigger, size_smaller(trigger->n_bytes, SCAN_TRIGGER_RECORD_BYTES));
        trigger->n_low_bytes = SCAN_TRIGGER_NO_LOW;
        trigger->n_falls = 0;
        trigger->n_below_bytes = falls_below(trigger);
}

/* It fell to a new low since the last look: the program may free nothing after this. */
static bool fell_lowest(const struct scan_trigger *trigger, const struct heap *heap)
{
        return scan_trigger_fell(trigger, heap) &&
               scan_trigger_is_lowest(trigger, scan_trigger_allocated(heap));
}

static uint32_t bounded_share(uint32_t n)
{
        if (n < SCAN_TRIGGER_SMALL_LEAST)
                return SCAN_TRIGGER_SMALL_LEAST;
        return n < SCAN_TRIGGER_SMALL ? n : SCAN_TRIGGER_SMALL;
}

uint32_t scan_trigger_share(uint32_t n_heaps)
{
        return bounded_share(SCAN_TRIGGER_SMALL_ALL / (n_heaps ? n_heaps : 1));
}

uint32_t scan_trigger_first_share(uint32_t *n_left)
{
        uint32_t n = bounded_share(*n_left / (SCAN_TRIGGER_SMALL_ALL / SCAN_TRIGGER_SMALL));

        *n_left -= n < *n_left ? n : *n_left;
        return n;
}

static void grant(struct scan_trigger *trigger, uint32_t n_records, uint32_t n_heaps)
{
        trigger->n_frees = SCAN_TRIGGER_FREES * (1 + n_heaps / SCAN_TRIGGER_HEAPS);
        trigger->n_small = trigger->n_granted = n_records;
}

void scan_trigger_grant_last(struct scan_trigger *trigger, uint32_t n_heaps, uint64_t now_us)
{
        if (now_us < trigger->next_grant_us)
                return;
        grant(trigger, scan_trigger_share(n_heaps), n_heaps);
        trigger->next_grant_us = now_us + SCAN_TRIGGER_GRANT_US;
}

void scan_trigger_grant(struct scan_trigger *trigger, uint32_t n_records, uint32_t n_heaps)
{
        grant(trigger, n_records, n_heaps);
        trigger->n_small_bytes = 0;
        set_emptied(trigger, trigger->has_emptied);
}

bool scan_trigger_begin_record(struct scan_trigger *trigger, const struct heap *heap)
{
        bool is_due = heap->n_freed_bytes >= trigger->n_bytes || scan_trigger_fell(trigger, heap) ||
                      (trigger->is_short && scan_trigger_is_last(trigger, heap));

        trigger->is_small = !is_due;
        return is_due || scan_trigger_is_last(trigger, heap) ||
               heap->n_freed_bytes >= trigger->n_due_bytes;
}

void scan_trigger_note_record(struct scan_trigger *trigger, const struct heap *heap)
{
        set_emptied(trigger, scan_trigger_is_owed(trigger, heap));
}

/* How much must be freed before the next small record. */
static uint64_t small_step(const struct scan_trigger *trigger, const struct heap *heap)
{
        unsigned n_parts = (trigger->n_granted - trigger->n_small) / SCAN_TRIGGER_SMALL_PART;
        uint64_t n_share_bytes = scan_trigger_allocated(heap) / SMALL_SHARE;

        if (!n_parts || n_share_bytes < 2 * HEAP_BLOCK_UNIT)
                return 0;
        return size_smaller(
                size_smaller(HEAP_BLOCK_UNIT << (n_parts - 1), SCAN_TRIGGER_RECORD_BYTES),
                n_share_bytes);
}

/* What was freed meanwhile, or could not be recorded, is left for the next record. */
static void settle_small(struct scan_trigger *trigger, const struct heap *heap)
{
        trigger->n_small_bytes = trigger->n_small ? heap->n_freed_bytes + small_step(trigger, heap)
                                                  : UINT64_MAX;
        scan_trigger_note_record(trigger, heap);
}

/* The next fall is measured from what is allocated now. */
static void count_record(struct scan_trigger *trigger, const struct heap *heap)
{
        if (!fell_lowest(trigger, heap)) {
                trigger->n_falls += scan_trigger_fell(trigger, heap);
                trigger->n_record_bytes += trigger->n_record_bytes / 2;
        }
        trigger->n_top_bytes = scan_trigger_allocated(heap);
        trigger->n_low_bytes = size_smaller(trigger->n_low_bytes, trigger->n_top_bytes);
        trigger->n_below_bytes = falls_below(trigger);
}

static void raise_bytes(struct scan_trigger *trigger, const struct heap_set *set,
                        const struct heap *heap)
{
        count_record(trigger, heap);
        set_bytes(trigger, heap->n_freed_bytes + trigger->n_record_bytes);
        if (!trigger->n_lacks)
                return;
        trigger->n_lacks--;
        if (set->n_heaps > 1)
                set_bytes(trigger, size_smaller(trigger->n_bytes, bytes_until(heap)));
}

void scan_trigger_raise(struct scan_trigger *trigger, const struct heap_set *set,
                        const struct heap *heap)
{
        if (trigger->is_small)
                trigger->n_small--;
        else
                raise_bytes(trigger, set, heap);
        settle_small(trigger, heap);
}
