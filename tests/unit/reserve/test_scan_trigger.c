/* SPDX-License-Identifier: Apache-2.0 */
/* When the frees of a heap are to look. */
#include "client/reserve/scan_trigger.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

static struct heap_world world;
static struct heap heap;
static struct scan_trigger trigger;
static struct heap_set set;

static void start(void)
{
        world_init(&world, 64 * MIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 48 * MIB);
        heap_set_init(&set);
        set.n_heaps = 2;
        scan_trigger_init(&trigger);
}

static void stop(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* Frees of so many bytes until it is time. */
static unsigned count_frees(uint64_t n_bytes)
{
        unsigned n = 0;
        bool is_time;

        do {
                heap.n_freed_bytes += n_bytes;
                is_time = scan_trigger_count_free(&trigger, &heap);
                n++;
        } while (!is_time);
        return n;
}

TEST(frees_look_once_in_so_many)
{
        ck_assert_uint_eq(count_frees(4 * MIB), SCAN_TRIGGER_FREES);
        ck_assert_uint_eq(count_frees(4 * MIB), SCAN_TRIGGER_FREES);
}

TEST(they_look_sooner_when_more_is_held)
{
        scan_trigger_done(&trigger, &set, &heap, 1);
        ck_assert_uint_eq(count_frees(1), SCAN_TRIGGER_FREES_SOON);
        scan_trigger_done(&trigger, &set, &heap, 0);
        ck_assert_uint_eq(count_frees(1), SCAN_TRIGGER_FREES);
}

TEST(who_is_wanted_looks_at_once_and_then_by_bytes)
{
        scan_trigger_note_lack(&trigger, false);
        for (unsigned i = 0; i < SCAN_TRIGGER_LACKS; i++) {
                ck_assert_uint_eq(count_frees(MIB), i ? 3 : 1);
                scan_trigger_done(&trigger, &set, &heap, 0);
        }
        ck_assert_uint_eq(count_frees(MIB), SCAN_TRIGGER_FREES);
}

TEST(in_small_heaps_it_is_a_block)
{
        heap.n_reserved_bytes = 0;
        scan_trigger_note_lack(&trigger, false);
        scan_trigger_done(&trigger, &set, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), 2);
        heap.n_reserved_bytes = 48 * MIB;
}

TEST(a_second_want_lets_a_look_come_when_it_was_to_come)
{
        scan_trigger_note_lack(&trigger, false);
        ck_assert_uint_eq(count_frees(MIB), 1);
        scan_trigger_done(&trigger, &set, &heap, 0);
        scan_trigger_note_lack(&trigger, false);
        ck_assert_uint_eq(trigger.n_lacks, SCAN_TRIGGER_LACKS);
        ck_assert_uint_eq(count_frees(MIB), 3);
}

TEST(nobody_is_there_who_wants_anything)
{
        set.n_heaps = 1;
        scan_trigger_note_lack(&trigger, false);
        ck_assert_uint_eq(count_frees(MIB), 1);
        scan_trigger_done(&trigger, &set, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), SCAN_TRIGGER_FREES);
}

TEST(the_last_free_looks_where_there_are_others)
{
        uint64_t addresses[2];

        for (unsigned i = 0; i < 2; i++)
                addresses[i] = world_alloc(&heap, 4096);
        scan_trigger_note_other(&trigger);
        (void)world_free(&heap, addresses[0]);
        ck_assert(!scan_trigger_count_free(&trigger, &heap));
        ck_assert(!scan_trigger_asks(&trigger, &heap));
        (void)world_free(&heap, addresses[1]);
        ck_assert(scan_trigger_count_free(&trigger, &heap));
        ck_assert(scan_trigger_asks(&trigger, &heap));
}

static void note_free(uint64_t n_bytes, enum scan_trigger_free how)
{
        const struct heap_freed freed = {.n_allocated_bytes = n_bytes};

        scan_trigger_note_free(&trigger, &heap, &freed, how);
}

/* As if so much were allocated, and freed in parts. Says how many of the frees are recorded. */
static unsigned fall(uint64_t n_from, uint64_t n_to, uint64_t n_part)
{
        unsigned n = 0;

        for (heap.n_allocated_bytes = n_from; heap.n_allocated_bytes > n_to;) {
                heap.n_allocated_bytes -= n_part;
                note_free(n_part, SCAN_TRIGGER_FREE_ORDERED);
                if (!scan_trigger_fell(&trigger, &heap))
                        continue;
                ck_assert(scan_trigger_begin_record(&trigger, &heap));
                scan_trigger_raise(&trigger, &set, &heap);
                n++;
        }
        return n;
}

TEST(a_burst_is_recorded_to_its_end)
{
        scan_trigger_lower(&trigger);
        ck_assert_uint_eq(fall(100 * GIB, 0, 8 * MIB), 100 * GIB / SCAN_TRIGGER_RECORD_BYTES);
        ck_assert_uint_eq(trigger.n_record_bytes, SCAN_TRIGGER_RECORD_BYTES);
}

TEST(a_loop_is_recorded_where_it_is_lowest)
{
        scan_trigger_lower(&trigger);
        ck_assert_uint_eq(fall(GIB, 8 * MIB, 8 * MIB), 15);
        (void)fall(GIB, 256 * MIB, 8 * MIB);
        ck_assert_uint_eq(trigger.n_falls, SCAN_TRIGGER_FALLS);
        for (unsigned i = 0; i < 20; i++) {
                ck_assert_uint_le(fall(GIB, 8 * MIB, 8 * MIB), 2);
                ck_assert_uint_lt(trigger.n_top_bytes, 8 * MIB + SCAN_TRIGGER_RECORD_BYTES);
                ck_assert_uint_eq(fall(GIB, 256 * MIB, 8 * MIB), 0);
        }
}

TEST(a_loop_has_no_more_records_than_so_many_until_somebody_looks)
{
        unsigned n = 0;

        scan_trigger_lower(&trigger);
        for (unsigned i = 0; i < 1000; i++)
                n += fall(GIB, 0, 256 * MIB);
        ck_assert_uint_le(n, GIB / SCAN_TRIGGER_RECORD_BYTES + SCAN_TRIGGER_FALLS_DEEP);
        ck_assert_uint_eq(trigger.n_falls, SCAN_TRIGGER_FALLS_DEEP);
        scan_trigger_lower(&trigger);
        ck_assert_uint_eq(fall(GIB, 0, 256 * MIB), 4);
}

TEST(there_are_fewer_where_much_stays_allocated)
{
        scan_trigger_lower(&trigger);
        for (unsigned i = 0; i < 1000; i++)
                (void)fall(2 * GIB, GIB + 512 * MIB, 64 * MIB);
        ck_assert_uint_eq(trigger.n_falls, SCAN_TRIGGER_FALLS_LOW);
        ck_assert_uint_eq(fall(GIB + 512 * MIB, 0, 64 * MIB), 24);
}

TEST(what_is_over_needs_no_record)
{
        scan_trigger_lower(&trigger);
        heap.n_allocated_bytes = GIB;
        note_free(0, SCAN_TRIGGER_FREE_ORDERED);
        for (unsigned i = 0; i < 8; i++) {
                heap.n_allocated_bytes -= 64 * MIB;
                note_free(64 * MIB, SCAN_TRIGGER_FREE_OVER);
                ck_assert(!scan_trigger_fell(&trigger, &heap));
        }
        ck_assert_uint_eq(fall(512 * MIB, 448 * MIB, 64 * MIB), 1);
}

TEST(where_nothing_is_put_idle_no_fall_counts)
{
        ck_assert_uint_eq(fall(GIB, 0, 64 * MIB), 0);
}

/* As if so much were freed, in pieces, each of which empties a block. Returns how many bytes the last record left. */
static uint64_t empty(uint64_t n_from, uint64_t n_to, uint64_t n_part, unsigned *ret_n_records)
{
        const struct heap_freed freed = {.n_allocated_bytes = n_part,
                                         .n_extent_bytes = HEAP_BLOCK_UNIT};

        *ret_n_records = 0;
        for (heap.n_allocated_bytes = n_from; heap.n_allocated_bytes > n_to;) {
                heap.n_allocated_bytes -= n_part;
                heap.n_freed_bytes += n_part;
                scan_trigger_note_free(&trigger, &heap, &freed, SCAN_TRIGGER_FREE_ORDERED);
                if (!scan_trigger_begin_record(&trigger, &heap))
                        continue;
                heap.n_freed_bytes = 0;
                scan_trigger_raise(&trigger, &set, &heap);
                ++*ret_n_records;
        }
        return heap.n_freed_bytes;
}

TEST(of_a_few_blocks_each_is_recorded)
{
        unsigned n;

        scan_trigger_lower(&trigger);
        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        ck_assert_uint_eq(empty(GIB + 8 * 2 * MIB, GIB, 2 * MIB, &n), 0);
        ck_assert_uint_eq(n, 8);
        ck_assert(!scan_trigger_is_granted(&trigger));
}

static const uint64_t bursts[] = {GIB, 4 * GIB, 16 * GIB, 100 * GIB};

TEST(of_a_large_burst_the_last_block_is_recorded, .to = ARRAY_SIZE(bursts))
{
        unsigned n;

        scan_trigger_lower(&trigger);
        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        ck_assert_uint_eq(empty(bursts[_i], 0, 2 * MIB, &n), 0);
        ck_assert_uint_le(n, bursts[_i] / SCAN_TRIGGER_RECORD_BYTES + SCAN_TRIGGER_SMALL);
}

/* Where much stays allocated it is as with large falls. */
TEST(above_much_memory_little_is_left_out)
{
        unsigned n;

        scan_trigger_lower(&trigger);
        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        ck_assert_uint_lt(empty(16 * GIB, 12 * GIB, 2 * MIB, &n), SCAN_TRIGGER_RECORD_BYTES);
        ck_assert_uint_le(n, 4 * GIB / SCAN_TRIGGER_RECORD_BYTES + SCAN_TRIGGER_SMALL);
}

TEST(a_loop_that_empties_a_block_is_recorded_as_often_as_is_granted)
{
        unsigned n, n_all = 0;

        scan_trigger_lower(&trigger);
        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        for (unsigned i = 0; i < 10000; i++) {
                (void)empty(4096, 0, 4096, &n);
                n_all += n;
        }
        ck_assert_uint_eq(n_all, SCAN_TRIGGER_SMALL);
        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        (void)empty(4096, 0, 4096, &n);
        ck_assert_uint_eq(n, 1);
}

/* Without a mark the free is still to be recorded, by the next one. */
TEST(what_was_not_recorded_stays_due)
{
        const struct heap_freed freed = {.n_allocated_bytes = 4096,
                                         .n_extent_bytes = HEAP_BLOCK_UNIT};

        scan_trigger_grant(&trigger, SCAN_TRIGGER_SMALL, 1);
        heap.n_freed_bytes = 4096;
        scan_trigger_note_free(&trigger, &heap, &freed, SCAN_TRIGGER_FREE_ORDERED);
        for (unsigned i = 0; i < SCAN_TRIGGER_SMALL_PART; i++) {
                ck_assert(scan_trigger_begin_record(&trigger, &heap));
                scan_trigger_raise(&trigger, &set, &heap);
        }
        heap.n_freed_bytes = 0;
        scan_trigger_raise(&trigger, &set, &heap);
        ck_assert(!scan_trigger_begin_record(&trigger, &heap));
}

/* A stream that allocates and frees one piece in a loop, beside others. */
TEST(the_last_free_is_recorded_as_often_as_is_granted)
{
        unsigned n = 0;

        scan_trigger_note_other(&trigger);
        scan_trigger_lower(&trigger);
        scan_trigger_grant(&trigger, 5, 1);
        for (unsigned i = 0; i < 10000; i++) {
                heap.n_freed_bytes += 4096;
                if (!scan_trigger_is_last(&trigger, &heap))
                        continue;
                ck_assert(scan_trigger_begin_record(&trigger, &heap));
                heap.n_freed_bytes = 0;
                scan_trigger_raise(&trigger, &set, &heap);
                n++;
        }
        ck_assert_uint_eq(n, 5);
        ck_assert(!scan_trigger_begin_record(&trigger, &heap));
        ck_assert(scan_trigger_is_owed(&trigger, &heap));
        scan_trigger_note_lack(&trigger, true);
        for (unsigned i = 0; i < 10000; i++) {
                heap.n_freed_bytes += 4096;
                ck_assert(scan_trigger_begin_record(&trigger, &heap));
                heap.n_freed_bytes = 0;
                scan_trigger_raise(&trigger, &set, &heap);
        }
        scan_trigger_note_lack(&trigger, false);
        ck_assert(!scan_trigger_is_last(&trigger, &heap));
}

TEST(many_heaps_share_what_is_granted)
{
        ck_assert_uint_eq(scan_trigger_share(0), SCAN_TRIGGER_SMALL);
        ck_assert_uint_eq(scan_trigger_share(16), SCAN_TRIGGER_SMALL);
        ck_assert_uint_eq(scan_trigger_share(64), 64);
        ck_assert_uint_eq(scan_trigger_share(UINT32_MAX), SCAN_TRIGGER_SMALL_LEAST);
}

TEST(new_heaps_share_the_rest)
{
        uint32_t n_left = SCAN_TRIGGER_SMALL_ALL, n_last = SCAN_TRIGGER_SMALL;

        ck_assert_uint_eq(scan_trigger_first_share(&n_left), SCAN_TRIGGER_SMALL);
        ck_assert_uint_eq(n_left, SCAN_TRIGGER_SMALL_ALL - SCAN_TRIGGER_SMALL);
        for (unsigned i = 0; i < 1000; i++) {
                uint32_t n = scan_trigger_first_share(&n_left);

                ck_assert(n <= n_last && n >= SCAN_TRIGGER_SMALL_LEAST);
                n_last = n;
        }
        ck_assert_uint_eq(n_left, 0);
}

TEST(of_many_heaps_each_looks_less_often)
{
        scan_trigger_grant(&trigger, 1, 10 * SCAN_TRIGGER_HEAPS);
        ck_assert_uint_eq(count_frees(1), SCAN_TRIGGER_FREES);
        ck_assert_uint_eq(count_frees(1), 11 * SCAN_TRIGGER_FREES);
        scan_trigger_done(&trigger, &set, &heap, 0);
        ck_assert_uint_eq(count_frees(1), 11 * SCAN_TRIGGER_FREES);
}

/* So a loop of one piece looks no more often than that. */
TEST(with_a_cache_size_last_frees_look_as_often_as_is_granted)
{
        unsigned n_looks = 0;

        scan_trigger_begin_bounded(&trigger);
        scan_trigger_note_other(&trigger);
        while (scan_trigger_count_free(&trigger, &heap)) {
                scan_trigger_done(&trigger, &set, &heap, 0);
                n_looks++;
        }
        ck_assert_uint_eq(n_looks, SCAN_TRIGGER_SMALL);
        scan_trigger_grant_last(&trigger, 1024, SCAN_TRIGGER_GRANT_US);
        ck_assert_uint_eq(trigger.n_small, 4);
        trigger.n_small = 0;
        scan_trigger_grant_last(&trigger, 1024, 2 * SCAN_TRIGGER_GRANT_US - 1);
        ck_assert_uint_eq(trigger.n_small, 0);
        scan_trigger_grant_last(&trigger, 1024, 2 * SCAN_TRIGGER_GRANT_US);
        ck_assert_uint_eq(trigger.n_small, 4);
}

/* As in a new heap: the first large fall is recorded. */
TEST(without_a_cache_size_again_a_fall_looks)
{
        const struct heap_freed freed = {.n_allocated_bytes = SCAN_TRIGGER_RECORD_BYTES};

        scan_trigger_begin_bounded(&trigger);
        scan_trigger_begin_unbounded(&trigger, SCAN_TRIGGER_SMALL, 1);
        heap.n_freed_bytes = SCAN_TRIGGER_RECORD_BYTES;
        scan_trigger_note_free(&trigger, &heap, &freed, SCAN_TRIGGER_FREE_ORDERED);
        ck_assert(scan_trigger_count_free(&trigger, &heap));
        ck_assert(scan_trigger_begin_record(&trigger, &heap));
        ck_assert_uint_eq(trigger.n_small, SCAN_TRIGGER_SMALL);
}

TESTS_MAIN("scan_trigger", .start = start, .stop = stop)
