/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs by themselves, and in a heap: when there are any, where, and what becomes of them. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "client/heap/heap_slabs.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"
#include "tests/unit/support/failing_alloc.h"

#define CELL HEAP_CELL_BYTES

static struct heap_world world;
static struct heap heap;

static void begin(void)
{
        world_init(&world, 64 * GIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 4 * MIB);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {.name = "slabs, spare", .stop = end};

/* Two slabs of four hundred live ones, the lower one of which gets a place back first. */
static uint32_t take_after(uint32_t n_live, unsigned n_given)
{
        struct slabs slabs = {.n_room = 0};
        uint32_t low, high, n_slack, unit;

        ck_assert_int_eq(slabs_reserve(&slabs), 0);
        low = slabs_add(&slabs, 1, 0, 1, 64);
        high = slabs_add(&slabs, 2, 1000, 1, 64);
        for (unsigned i = 0; i < 128; i++)
                (void)slabs_take(&slabs, 1, 0);
        slabs.n_live[1] = n_live;
        for (unsigned i = 0; i < n_given; i++) {
                ck_assert(slabs_give(&slabs, low, i, &n_slack));
                ck_assert(slabs_give(&slabs, high, 1000 + i, &n_slack));
        }
        unit = slabs_take(&slabs, 1, 0);
        (void)slabs_check(&slabs);
        slabs_deinit(&slabs);
        return unit;
}

TEST(where_many_places_are_free_a_low_one_is_taken)
{
        ck_assert_uint_eq(take_after(400, 1), 1000);
        ck_assert_uint_eq(take_after(128, 30), 0);
}

/* One that has become the lowest with a place, though it was not full. */
TEST(a_lower_slab_that_gets_a_place_back_comes_first)
{
        struct slabs slabs = {.n_room = 0};
        uint32_t low, high, n_slack;

        ck_assert_int_eq(slabs_reserve(&slabs), 0);
        high = slabs_add(&slabs, 2, 1000, 1, 64);
        (void)slabs_take(&slabs, 1, 0);
        low = slabs_add(&slabs, 1, 0, 1, 64);
        ck_assert_uint_eq(slabs_take(&slabs, 1, 0), 0);
        ck_assert_uint_eq(slabs_take(&slabs, 1, 0), 1);
        slabs.heads[1] = 0;
        slabs_at(&slabs, low)->previous = high;
        slabs_at(&slabs, low)->next = 0;
        slabs_at(&slabs, high)->next = low;
        slabs_at(&slabs, high)->previous = 0;
        slabs.heads[1] = high;
        ck_assert(slabs_give(&slabs, low, 0, &n_slack));
        (void)slabs_check(&slabs);
        ck_assert_uint_eq(slabs_take(&slabs, 1, 0), 0);
        slabs_deinit(&slabs);
}

/* What is free of a slab is no more than a half of what is live, or a few places. */
TEST(slabs_are_as_large_as_what_is_live, .to = 10)
{
        static const struct {
                uint32_t n_live;
                unsigned n_places;
        } rows[] = {{0, 0},   {1, 0},   {2, 8},    {31, 8},   {32, 16},
                    {63, 16}, {64, 32}, {127, 32}, {128, 64}, {1000000, 64}};
        struct slabs slabs = {.n_room = 0};

        slabs.n_live[5] = rows[_i].n_live;
        ck_assert_uint_eq(slabs_wish(&slabs, 5), rows[_i].n_places);
        ck_assert_uint_eq(slabs_wish(&slabs, 4), 0);
}

/* As many as a cell can name. */
TEST(there_is_a_most_of_slabs)
{
        struct slabs slabs = {.n_room = 0};
        uint32_t index = 0;

        while (slabs_reserve(&slabs) == 0)
                index = slabs_add(&slabs, 1, index * 8, 1, 8);
        ck_assert_uint_eq(index, UINT16_MAX);
        ck_assert_int_eq(slabs_reserve(&slabs), -ENOMEM);
        (void)slabs_remove(&slabs, 7);
        ck_assert_int_eq(slabs_reserve(&slabs), 0);
        ck_assert_uint_eq(slabs_add(&slabs, 1, 0, 1, 8), 7);
        slabs_deinit(&slabs);
}

/* Fewer places than are wished for, where the memory holds no more. */
TEST(a_slab_is_as_large_as_a_hole_holds)
{
        do
                (void)world_alloc(&heap, 8 * KIB);
        while (slabs_free_units(&heap.slabs) || heap.slabs.n_live[16] < 32);
        ck_assert_uint_eq(slabs_wish(&heap.slabs, 16), 16);
        (void)world_alloc(&heap, (heap.extents.n_units - 8 * 16 - (HEAP_CELL_UNITS - 1)) * 512);
        (void)world_alloc(&heap, 8 * KIB);
        ck_assert_uint_eq(slabs_free_units(&heap.slabs), 7 * 16);
}

/* Where there is no room there may be many holes that are just too small: they are not looked through each time. */
TEST(no_list_is_walked_for_a_slab)
{
        uint64_t n_least = SLAB_PLACES_MIN + HEAP_CELL_UNITS - 1, lower, upper;

        for (unsigned i = 0; i < 2; i++)
                (void)world_alloc(&heap, 512);
        lower = world_alloc(&heap, (n_least - 1) * 512);
        (void)world_alloc(&heap, 10 * KIB);
        upper = world_alloc(&heap, n_least * 512);
        (void)world_alloc(&heap, heap.extents.n_units * 512);
        (void)world_free(&heap, lower);
        (void)world_free(&heap, upper);
        ck_assert_uint_eq(world_alloc(&heap, 512), lower);
        ck_assert_uint_eq(slabs_free_units(&heap.slabs), 0);
        /* Now it comes first. */
        (void)world_alloc(&heap, 512);
        ck_assert_uint_ne(slabs_free_units(&heap.slabs), 0);
}

/* Whatever there is no memory for: it is an extent, or nothing has changed. */
TEST(slabs_without_memory)
{
        unsigned n_failed = 0;

        for (unsigned i = 0; i < 2; i++)
                (void)world_alloc(&heap, 512);
        for (int n_until = 0; n_until < 4; n_until++) {
                uint32_t n_entries = heap.alloc_table.n_entries;
                uint64_t address;
                int r;

                n_until_failure = n_until;
                r = heap_alloc(&heap, 512, &address);
                n_failed += n_until_failure < 0;
                n_until_failure = -1;
                ck_assert_int_eq(r, 0);
                heap_check(&heap);
                if (n_until < 3)
                        ck_assert_uint_eq(heap.alloc_table.n_entries, n_entries + 1);
        }
        ck_assert_uint_eq(n_failed, 3);
        ck_assert_uint_eq(heap.slabs.n_live[1], 6);
}

static uint32_t n_spare_pieces(void)
{
        return heap.extents.n_unused + heap.extents.n_extents - heap.extents.n_touched;
}

/* It takes two extents, for which there is room or is not. */
static void begin_with_spare(uint32_t n_spare)
{
        begin();
        for (unsigned i = 0; i < 2; i++)
                (void)world_alloc(&heap, 512);
        do
                (void)world_alloc(&heap, 9 * KIB);
        while (n_spare_pieces() != n_spare);
}

TEST(no_slab_without_its_pieces, .to = 2, .in = &without_start)
{
        uint64_t address;

        begin_with_spare((uint32_t)_i);
        n_until_failure = 2; /* after both arrays of slabs */
        ck_assert_int_eq(heap_alloc(&heap, 512, &address), 0);
        ck_assert_int_lt(n_until_failure, 0);
        heap_check(&heap);
        ck_assert_uint_eq(slabs_free_units(&heap.slabs), 0);
}

/* Whatever is allocated. */
TEST(a_heap_ends_with_its_slabs)
{
        for (unsigned i = 0; i < 3; i++)
                (void)world_alloc(&heap, 512);
        ck_assert_ptr_nonnull(world.blocks[0].cells);
        heap_deinit(&heap);
        ck_assert_ptr_null(world.blocks[0].cells);
        ck_assert_ptr_null(world.blocks[0].heap);
        ck_assert_ptr_null(heap.slabs.slabs);
        ck_assert_ptr_null(heap.slabs.rests);
        heap_init(&heap, world.arena, HEAP_JOINED);
}

TESTS_MAIN("slabs", .start = begin, .stop = end)
