/* When the frees of a heap are to look. */
#include "client/reserve/looks.h"
#include "tests/suite.h"
#include "tests/unit/heap_world.h"

static struct heap_world world;
static struct heap heap;
static struct looks looks;
static struct space space;

static void start(void)
{
        world_init(&world, 64 * MIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 48 * MIB);
        space_init(&space);
        space.n_heaps = 2;
        looks_init(&looks);
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
                is_time = looks_count_free(&looks, &heap);
                n++;
        } while (!is_time);
        return n;
}

TEST(frees_look_once_in_so_many)
{
        ck_assert_uint_eq(count_frees(4 * MIB), LOOKS_FREES);
        ck_assert_uint_eq(count_frees(4 * MIB), LOOKS_FREES);
}

TEST(they_look_sooner_when_more_is_held)
{
        looks_done(&looks, &space, &heap, 1);
        ck_assert_uint_eq(count_frees(1), LOOKS_FREES_SOON);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(1), LOOKS_FREES);
}

TEST(who_is_wanted_looks_at_once_and_then_by_bytes)
{
        looks_want(&looks);
        for (unsigned i = 0; i < LOOKS_WANTED; i++) {
                ck_assert_uint_eq(count_frees(MIB), i ? 3 : 1);
                looks_done(&looks, &space, &heap, 0);
        }
        ck_assert_uint_eq(count_frees(MIB), LOOKS_FREES);
}

TEST(in_small_heaps_it_is_a_block)
{
        heap.n_reserved_bytes = 0;
        looks_want(&looks);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), 2);
        heap.n_reserved_bytes = 48 * MIB;
}

TEST(a_second_want_lets_a_look_come_when_it_was_to_come)
{
        looks_want(&looks);
        ck_assert_uint_eq(count_frees(MIB), 1);
        looks_done(&looks, &space, &heap, 0);
        looks_want(&looks);
        ck_assert_uint_eq(looks.n_wanted, LOOKS_WANTED);
        ck_assert_uint_eq(count_frees(MIB), 3);
}

TEST(nobody_is_there_who_wants_anything)
{
        space.n_heaps = 1;
        looks_want(&looks);
        ck_assert_uint_eq(count_frees(MIB), 1);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), LOOKS_FREES);
}

TEST(the_last_free_looks_where_there_are_others)
{
        uint64_t addresses[2];

        for (unsigned i = 0; i < 2; i++)
                addresses[i] = world_alloc(&heap, 4096);
        looks_meet(&looks);
        (void)world_free(&heap, addresses[0]);
        ck_assert(!looks_count_free(&looks, &heap));
        ck_assert(!looks_ask(&looks, &heap));
        (void)world_free(&heap, addresses[1]);
        ck_assert(looks_count_free(&looks, &heap));
        ck_assert(looks_ask(&looks, &heap));
}

/* As if so much were allocated, and freed in parts. Says how many of the frees are recorded. */
static unsigned fall(uint64_t n_from, uint64_t n_to, uint64_t n_part)
{
        unsigned n = 0;

        for (heap.n_allocated_bytes = n_from; heap.n_allocated_bytes > n_to;) {
                heap.n_allocated_bytes -= n_part;
                looks_note_free(&looks, &heap, n_part, LOOKS_FREE_ORDERED);
                if (!looks_fell(&looks, &heap))
                        continue;
                ck_assert(looks_are_due(&looks, &heap));
                looks_raise(&looks, &space, &heap);
                n++;
        }
        return n;
}

TEST(a_burst_is_recorded_to_its_end)
{
        looks_lower(&looks);
        ck_assert_uint_eq(fall(100 * GIB, 0, 8 * MIB), 100 * GIB / LOOKS_RECORD_BYTES);
        ck_assert_uint_eq(looks.n_record_bytes, LOOKS_RECORD_BYTES);
}

TEST(a_loop_is_recorded_where_it_is_lowest)
{
        looks_lower(&looks);
        ck_assert_uint_eq(fall(GIB, 8 * MIB, 8 * MIB), 15);
        (void)fall(GIB, 256 * MIB, 8 * MIB);
        ck_assert_uint_eq(looks.n_falls, LOOKS_FALLS);
        for (unsigned i = 0; i < 20; i++) {
                ck_assert_uint_le(fall(GIB, 8 * MIB, 8 * MIB), 2);
                ck_assert_uint_lt(looks.n_top_bytes, 8 * MIB + LOOKS_RECORD_BYTES);
                ck_assert_uint_eq(fall(GIB, 256 * MIB, 8 * MIB), 0);
        }
}

TEST(a_loop_has_no_more_records_than_so_many_until_somebody_looks)
{
        unsigned n = 0;

        looks_lower(&looks);
        for (unsigned i = 0; i < 1000; i++)
                n += fall(GIB, 0, 256 * MIB);
        ck_assert_uint_le(n, GIB / LOOKS_RECORD_BYTES + LOOKS_FALLS_DEEP);
        ck_assert_uint_eq(looks.n_falls, LOOKS_FALLS_DEEP);
        looks_lower(&looks);
        ck_assert_uint_eq(fall(GIB, 0, 256 * MIB), 4);
}

TEST(there_are_fewer_where_much_stays_allocated)
{
        looks_lower(&looks);
        for (unsigned i = 0; i < 1000; i++)
                (void)fall(2 * GIB, GIB + 512 * MIB, 64 * MIB);
        ck_assert_uint_eq(looks.n_falls, LOOKS_FALLS_LOW);
        ck_assert_uint_eq(fall(GIB + 512 * MIB, 0, 64 * MIB), 24);
}

TEST(what_is_over_needs_no_record)
{
        looks_lower(&looks);
        heap.n_allocated_bytes = GIB;
        looks_note_free(&looks, &heap, 0, LOOKS_FREE_ORDERED);
        for (unsigned i = 0; i < 8; i++) {
                heap.n_allocated_bytes -= 64 * MIB;
                looks_note_free(&looks, &heap, 64 * MIB, LOOKS_FREE_OVER);
                ck_assert(!looks_fell(&looks, &heap));
        }
        ck_assert_uint_eq(fall(512 * MIB, 448 * MIB, 64 * MIB), 1);
}

TEST(where_nothing_is_shelved_no_fall_counts)
{
        ck_assert_uint_eq(fall(GIB, 0, 64 * MIB), 0);
}

TESTS_MAIN("looks", .start = start, .stop = stop)
