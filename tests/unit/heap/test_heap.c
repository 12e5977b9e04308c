/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations in a heap: sizes at their edges, addresses that are refused. tests/model/test_heap_model.c
 * compares the rest, with runs joined and kept apart, with a naive model. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

#define UNTOUCHED UINT64_C(0x5555555555555555)

/* Extents are numbered with 32 bits, and some are left for a block to round up to. */
#define N_BYTES_MAX ((UINT64_C(1) << 41) - 2 * MIB - 512)

static struct heap_world world;
static struct heap heap;

static void begin(void)
{
        world_init(&world, 64 * GIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* Neither an allocation nor a byte of the output changes. */
static void refuses_free(uint64_t address)
{
        struct heap before = heap;
        struct heap_freed freed, untouched;

        memset(&freed, 0x55, sizeof(freed));
        memset(&untouched, 0x55, sizeof(untouched));
        ck_assert_int_eq(heap_free(&heap, address, &freed), GPUMEM_E_NOT_OURS);
        ck_assert_mem_eq(&freed, &untouched, sizeof(freed));
        ck_assert_mem_eq(&before, &heap, sizeof(heap));
        heap_check(&heap);
}

static const struct {
        uint64_t n_bytes;
        int result;
        uint64_t n_allocated_bytes;
} alloc_rows[] = {
        {0, GPUMEM_E_BAD_REQUEST, 0},
        {1, 0, 512},
        {511, 0, 512},
        {512, 0, 512},
        {513, 0, 1024},
        {1024, 0, 1024},
        {4 * MIB - 512, 0, 4 * MIB - 512},
        {4 * MIB - 511, 0, 4 * MIB},
        {4 * MIB, 0, 4 * MIB},
        {4 * MIB + 1, GPUMEM_E_REFUSED, 0},
        {TIB, GPUMEM_E_REFUSED, 0},
        {N_BYTES_MAX, GPUMEM_E_REFUSED, 0},
        {N_BYTES_MAX + 1, GPUMEM_E_TOO_LARGE, 0},
        {UINT64_MAX - 512, GPUMEM_E_TOO_LARGE, 0},
        {UINT64_MAX, GPUMEM_E_TOO_LARGE, 0},
};

TEST(sizes_at_their_edges, .to = ARRAY_SIZE(alloc_rows))
{
        uint64_t address = UNTOUCHED;
        struct heap_freed freed;

        (void)world_add(&world, &heap, 0, 4 * MIB);
        ck_assert_int_eq(heap_alloc(&heap, alloc_rows[_i].n_bytes, &address),
                         alloc_rows[_i].result);
        heap_check(&heap);
        ck_assert_uint_eq(heap.n_allocated_bytes, alloc_rows[_i].n_allocated_bytes);
        if (alloc_rows[_i].result) {
                ck_assert_uint_eq(address, UNTOUCHED);
                ck_assert_uint_eq(heap.n_requested_bytes, 0);
        } else {
                ck_assert_uint_eq(address, WORLD_START);
                ck_assert_uint_eq(heap.n_requested_bytes, alloc_rows[_i].n_bytes);
                freed = world_free(&heap, 0);
                ck_assert_uint_eq(freed.n_requested_bytes, alloc_rows[_i].n_bytes);
                ck_assert_uint_eq(freed.n_allocated_bytes, alloc_rows[_i].n_allocated_bytes);
                ck_assert_uint_eq(freed.n_extent_bytes, 4 * MIB);
        }
}

static uint64_t takes(uint64_t n_bytes)
{
        uint64_t address = 0;

        ck_assert_int_eq(heap_alloc(&heap, n_bytes, &address), 0);
        return address;
}

static void ends(uint64_t address)
{
        struct heap_freed freed;

        ck_assert_int_eq(heap_free(&heap, address, &freed), 0);
}

/* A larger hole is lower; an exact fit is chosen all the same, and the lower one where there is none. */
TEST(a_hole_of_the_exact_size_goes_first)
{
        uint64_t larger, exact;

        (void)world_add(&world, &heap, 0, 4 * MIB);
        larger = takes(300 * KIB);
        (void)takes(64 * KIB);
        exact = takes(100 * KIB);
        (void)takes(64 * KIB);
        ends(larger);
        ends(exact);
        ck_assert_uint_eq(takes(100 * KIB), exact);
        ck_assert_uint_eq(takes(100 * KIB), larger);
        heap_check(&heap);
}

TEST(what_is_not_the_start_of_an_allocation_is_not_freed)
{
        (void)world_add(&world, &heap, 2 * MIB, 2 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 4096), 2 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 4096), 2 * MIB + 4096);
        refuses_free(WORLD_START + 2 * MIB + 1);
        refuses_free(WORLD_START + 2 * MIB + 512);
        refuses_free(WORLD_START + 2 * MIB + 8192);
        refuses_free(WORLD_START + 2 * MIB - 512);
        refuses_free(WORLD_START + 4 * MIB);
        refuses_free(WORLD_START);
        refuses_free(0);
        refuses_free(UINT64_MAX);
        (void)world_free(&heap, 2 * MIB);
        refuses_free(WORLD_START + 2 * MIB);
        (void)world_free(&heap, 2 * MIB + 4096);
        refuses_free(WORLD_START + 2 * MIB + 4096);
}

/* Its unit, cut to 32 bits, is that of the allocation at the arena's start. */
TEST(an_address_far_from_the_arena_is_not_freed)
{
        (void)world_add(&world, &heap, 0, 2 * MIB);
        (void)world_alloc(&heap, 512);
        refuses_free(0);
        refuses_free(WORLD_START - 2 * TIB);
        refuses_free(WORLD_START + 2 * TIB);
        refuses_free(WORLD_START + 4 * TIB);
}

/* The leak checker of the sanitized build watches. */
TEST(deinit_frees_what_describes_live_allocations)
{
        (void)world_add(&world, &heap, 0, 64 * MIB);
        (void)world_add(&world, &heap, GIB, 64 * MIB);
        for (unsigned i = 0; i < 200; i++)
                (void)world_alloc(&heap, (i + 1) * 1000);
        heap_deinit(&heap);
        ck_assert(!world.blocks[0].heap && !world.blocks[1].heap);
}

TESTS_MAIN("heap", .limit_s = UNLIMITED, .start = begin, .stop = end)
