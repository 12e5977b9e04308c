/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations in a heap; and blocks that touch, which are one run to allocations, or each a run where runs are kept
 * apart. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

#define BLOCK     (2 * MIB)
#define UNTOUCHED UINT64_C(0x5555555555555555)

/* Extents are numbered with 32 bits, and some are left for a block to round up to. */
#define N_BYTES_MAX ((UINT64_C(1) << 41) - 2 * MIB - 512)

static struct heap_world world;
static struct heap heap;

static void begin(enum heap_runs runs)
{
        world_init(&world, 64 * GIB);
        heap_init(&heap, world.arena, runs);
}

static void begin_joined(void)
{
        begin(HEAP_JOINED);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "heap, split", .limit_s = UNLIMITED, .stop = end};

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

TEST(an_empty_heap_has_nothing)
{
        struct heap_allocation allocation;
        uint64_t address;

        heap_check(&heap);
        ck_assert_int_eq(heap_alloc(&heap, 1, &address), GPUMEM_E_REFUSED);
        refuses_free(0);
        refuses_free(WORLD_START);
        ck_assert_int_eq(heap_find(&heap, WORLD_START, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_uint_eq(heap.n_reserved_bytes, 0);
}

TEST(figures_add_up)
{
        (void)world_add(&world, &heap, 0, 2 * MIB);
        (void)world_add(&world, &heap, GIB, 4 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 100), 0);
        ck_assert_uint_eq(world_alloc(&heap, 1000), 512);
        (void)world_free(&heap, 0);
        ck_assert_uint_eq(heap.n_requested_bytes, 1000);
        ck_assert_uint_eq(heap.n_allocated_bytes, 1024);
        ck_assert_uint_eq(heap.n_reserved_bytes, 6 * MIB);
        ck_assert_uint_eq(heap.n_freed_bytes, 512);
        ck_assert_uint_eq(heap.n_blocks, 2);
        ck_assert_uint_eq(heap.extents.n_free, 3);
}

/* Five allocations in a row: freed in each order, the middle three always end as one hole. */
TEST(holes_merge_in_every_order, .to = 6)
{
        static const unsigned orders[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                             {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
        static const unsigned n_free_after[][3] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 1},
                                                   {1, 1, 1}, {1, 2, 1}, {1, 1, 1}};
        struct heap_freed freed = {0};

        (void)world_add(&world, &heap, 0, 2 * MIB);
        for (unsigned i = 0; i < 4; i++)
                ck_assert_uint_eq(world_alloc(&heap, 64 * KIB), i * 64 * KIB);
        (void)world_alloc(&heap, 2 * MIB - 256 * KIB);
        ck_assert_uint_eq(heap.extents.n_free, 0);
        for (unsigned i = 0; i < 3; i++) {
                freed = world_free(&heap, orders[_i][i] * 64 * KIB);
                ck_assert_uint_eq(heap.extents.n_free, n_free_after[_i][i]);
        }
        ck_assert_uint_eq(freed.n_extent_bytes, 192 * KIB);
        ck_assert_uint_eq(world_alloc(&heap, 192 * KIB), 64 * KIB);
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

TEST(one_of_exactly_the_size_or_the_lowest_is_chosen)
{
        static const uint64_t n_kib[] = {100, 9, 300, 9, 98, 9, 97, 9};
        uint64_t offsets[ARRAY_SIZE(n_kib)];

        (void)world_add(&world, &heap, 0, 2 * MIB);
        for (unsigned i = 0; i < ARRAY_SIZE(n_kib); i++)
                offsets[i] = world_alloc(&heap, n_kib[i] * KIB);
        for (unsigned i = 0; i < ARRAY_SIZE(n_kib); i += 2)
                (void)world_free(&heap, offsets[i]);
        ck_assert_uint_eq(world_alloc(&heap, 98 * KIB), offsets[4]);
        ck_assert_uint_eq(world_alloc(&heap, 96 * KIB), offsets[0]);
        ck_assert_uint_eq(world_alloc(&heap, 96 * KIB), offsets[2]);
        ck_assert_uint_eq(world_alloc(&heap, 96 * KIB), offsets[2] + 96 * KIB);
}

static void expect_allocation(uint64_t offset, uint64_t start, uint64_t n_requested_bytes,
                              uint64_t n_allocated_bytes)
{
        struct heap_allocation allocation;

        ck_assert_int_eq(heap_find(&heap, WORLD_START + offset, &allocation), 0);
        ck_assert_uint_eq(allocation.start, WORLD_START + start);
        ck_assert_uint_eq(allocation.n_requested_bytes, n_requested_bytes);
        ck_assert_uint_eq(allocation.n_allocated_bytes, n_allocated_bytes);
}

static void expect_no_allocation(uint64_t offset)
{
        struct heap_allocation allocation, untouched;

        memset(&allocation, 0x55, sizeof(allocation));
        memset(&untouched, 0x55, sizeof(untouched));
        ck_assert_int_eq(heap_find(&heap, WORLD_START + offset, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_mem_eq(&allocation, &untouched, sizeof(allocation));
}

TEST(an_allocation_is_found_by_any_of_its_addresses)
{
        (void)world_add(&world, &heap, 2 * MIB + GIB, 2 * MIB);
        (void)world_add(&world, &heap, 2 * MIB, 2 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 1000), 2 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 5000), 2 * MIB + 1024);
        ck_assert_uint_eq(world_alloc(&heap, 700), 2 * MIB + 6144);
        for (uint64_t offset = 0; offset < 5120; offset += 256)
                expect_allocation(2 * MIB + 1024 + offset, 2 * MIB + 1024, 5000, 5120);
        expect_allocation(2 * MIB + 1023, 2 * MIB, 1000, 1024);
        expect_allocation(2 * MIB + 6144, 2 * MIB + 6144, 700, 1024);
        expect_allocation(2 * MIB + 7167, 2 * MIB + 6144, 700, 1024);
        expect_no_allocation(2 * MIB + 7168);
        expect_no_allocation(2 * MIB - 1);
        expect_no_allocation(4 * MIB - 1);
        expect_no_allocation(4 * MIB);
        expect_no_allocation(2 * MIB + GIB);
        expect_no_allocation(-WORLD_START);
        expect_no_allocation(-WORLD_START - 1);
        (void)world_free(&heap, 2 * MIB + 1024);
        expect_no_allocation(2 * MIB + 1024);
        expect_no_allocation(2 * MIB + 1025);
}

TEST(another_heaps_allocation_is_not_found)
{
        static struct heap other;

        heap_init(&other, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 2 * MIB);
        (void)world_add(&world, &other, 2 * MIB, 2 * MIB);
        ck_assert_uint_eq(world_alloc(&other, 1000), 2 * MIB);
        expect_no_allocation(2 * MIB);
        expect_no_allocation(2 * MIB + 1);
        refuses_free(WORLD_START + 2 * MIB);
        heap_deinit(&other);
}

TEST(epochs_tell_what_is_idle)
{
        const struct heap_block *block;
        uint32_t epoch;

        block = world_add(&world, &heap, 0, 2 * MIB);
        ck_assert(heap_is_idle(&heap, block));
        (void)world_alloc(&heap, MIB);
        (void)world_free(&heap, 0);
        ck_assert(!heap_is_idle(&heap, block));
        ck_assert_uint_eq(heap.n_freed_bytes, MIB);
        epoch = heap_new_epoch(&heap);
        ck_assert_uint_eq(heap.epoch, epoch + 1);
        ck_assert_uint_eq(heap.n_freed_bytes, 0);
        ck_assert(!heap_is_idle(&heap, block));
        heap.n_done_epochs = epoch + 1;
        ck_assert(heap_is_idle(&heap, block));
        (void)world_alloc(&heap, MIB);
        (void)world_free(&heap, 0);
        ck_assert(!heap_is_idle(&heap, block));
}

/* Of what spans several blocks each one knows; what is freed beside them is not theirs. */
TEST(each_block_knows_when_it_was_freed_in)
{
        const struct heap_block *blocks[3];
        uint64_t wide, narrow;

        for (unsigned i = 0; i < 3; i++)
                blocks[i] = world_add(&world, &heap, i * 2 * MIB, 2 * MIB);
        wide = world_alloc(&heap, 3 * MIB);
        narrow = world_alloc(&heap, 3 * MIB);
        (void)world_free(&heap, wide);
        heap.n_done_epochs = heap_new_epoch(&heap) + 1;
        ck_assert(heap_is_idle(&heap, blocks[0]) && heap_is_idle(&heap, blocks[1]));
        (void)world_free(&heap, narrow);
        ck_assert(heap_is_idle(&heap, blocks[0]));
        ck_assert(!heap_is_idle(&heap, blocks[1]) && !heap_is_idle(&heap, blocks[2]));
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

static void refuses(uint64_t n_bytes)
{
        uint64_t address;

        ck_assert_int_eq(heap_alloc(&heap, n_bytes, &address), GPUMEM_E_REFUSED);
}

static const unsigned block_orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {0, 3, 1, 2},
                                           {1, 3, 0, 2}, {2, 0, 3, 1}, {3, 0, 2, 1}, {1, 2, 3, 0}};

TEST(blocks_that_touch_are_one_run_in_every_order, .to = ARRAY_SIZE(block_orders))
{
        for (unsigned i = 0; i < 4; i++)
                (void)world_add(&world, &heap, block_orders[_i][i] * BLOCK, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 1);
        refuses(4 * BLOCK + 1);
        ck_assert_uint_eq(world_alloc(&heap, 4 * BLOCK), 0);
        (void)world_free(&heap, 0);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK - 512), 0);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK + 512), 3 * BLOCK - 512);
}

/* Whatever goes first, what is left are its runs. */
TEST(a_run_is_cut_in_every_order, .to = ARRAY_SIZE(block_orders))
{
        struct heap_block *blocks[4];

        for (unsigned i = 0; i < 4; i++)
                blocks[i] = world_add(&world, &heap, i * BLOCK, BLOCK);
        for (unsigned i = 0; i < 4; i++) {
                world_remove(&world, blocks[block_orders[_i][i]]);
                ck_assert_uint_eq(heap.n_reserved_bytes, (3 - i) * BLOCK);
        }
        ck_assert_uint_eq(heap.extents.n_free, 0);
        refuses(1);
}

TEST(runs_kept_apart_are_not_joined, .in = &without_start)
{
        struct heap_block *low, *high;

        begin(HEAP_SPLIT);
        high = world_add(&world, &heap, BLOCK, BLOCK);
        low = world_add(&world, &heap, 0, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        refuses(BLOCK + 1);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK), 0);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK), BLOCK);
        ck_assert_uint_eq(world_free(&heap, 0).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(world_free(&heap, BLOCK).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        refuses(BLOCK + 1);
        world_remove(&world, low);
        world_remove(&world, high);
}

TEST(another_heaps_block_is_not_joined)
{
        static struct heap other;

        heap_init(&other, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, BLOCK);
        (void)world_add(&world, &other, BLOCK, BLOCK);
        (void)world_add(&world, &heap, 2 * BLOCK, BLOCK);
        heap_check(&heap);
        heap_check(&other);
        refuses(BLOCK + 1);
        ck_assert_uint_eq(heap.extents.n_free, 2);
        heap_deinit(&other);
}

/* Six blocks, in use from the middle of the second one to the middle of the fourth. */
TEST(a_block_is_empty_when_one_hole_covers_it)
{
        struct heap_block *blocks[6];
        uint64_t offset;

        for (unsigned i = 0; i < 6; i++)
                blocks[i] = world_add(&world, &heap, i * BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK + MIB), 0);
        offset = world_alloc(&heap, 2 * BLOCK);
        ck_assert_uint_eq(offset, BLOCK + MIB);
        (void)world_free(&heap, 0);
        for (unsigned i = 0; i < 6; i++)
                ck_assert_int_eq(heap_block_extent(&heap, blocks[i]) != 0, i == 0 || i > 3);
        ck_assert_uint_ne(heap_block_extent(&heap, blocks[0]), heap_block_extent(&heap, blocks[4]));
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[4]), heap_block_extent(&heap, blocks[5]));
        world_remove(&world, blocks[0]);
        world_remove(&world, blocks[4]);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[1]), 0);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[3]), 0);
        ck_assert_uint_eq(world_free(&heap, offset).n_extent_bytes, 3 * BLOCK);
        ck_assert_uint_eq(heap_block_extent(&heap, blocks[1]), heap_block_extent(&heap, blocks[3]));
}

/* A block whose neighbours' memory is in use. */
TEST(a_block_leaves_the_middle_of_a_run)
{
        struct heap_block *middle;

        (void)world_add(&world, &heap, 0, BLOCK);
        middle = world_add(&world, &heap, BLOCK, BLOCK);
        (void)world_add(&world, &heap, 2 * BLOCK, BLOCK);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_uint_eq(world_alloc(&heap, BLOCK), i * BLOCK);
        ck_assert_uint_eq(heap_block_extent(&heap, middle), 0);
        (void)world_free(&heap, BLOCK);
        world_remove(&world, middle);
        refuses(1);
        ck_assert_uint_eq(world_free(&heap, 0).n_extent_bytes, BLOCK);
        ck_assert_uint_eq(world_free(&heap, 2 * BLOCK).n_extent_bytes, BLOCK);
        refuses(BLOCK + 1);
        (void)world_add(&world, &heap, BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK), 0);
}

/* What is added under a run does not make what follows it forget where it is. */
TEST(allocations_are_found_across_blocks)
{
        struct heap_allocation allocation;

        for (unsigned i = 1; i < 5; i++)
                (void)world_add(&world, &heap, i * BLOCK, BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 3 * BLOCK + 1), BLOCK);
        ck_assert_uint_eq(world_alloc(&heap, 512), 4 * BLOCK + 512);
        (void)world_add(&world, &heap, 0, BLOCK);
        for (uint64_t offset = BLOCK; offset <= 4 * BLOCK; offset += BLOCK / 4) {
                ck_assert_int_eq(heap_find(&heap, WORLD_START + offset, &allocation), 0);
                ck_assert_uint_eq(allocation.start, WORLD_START + BLOCK);
                ck_assert_uint_eq(allocation.n_requested_bytes, 3 * BLOCK + 1);
                ck_assert_uint_eq(allocation.n_allocated_bytes, 3 * BLOCK + 512);
        }
        ck_assert_int_eq(heap_find(&heap, WORLD_START + BLOCK - 1, &allocation), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(heap_find(&heap, WORLD_START + 4 * BLOCK + 1023, &allocation), 0);
        ck_assert_uint_eq(allocation.start, WORLD_START + 4 * BLOCK + 512);
}

/* New memory is free of work, and does not make what it is joined to idle. */
TEST(new_memory_is_idle_on_its_own)
{
        struct heap_block *used, *fresh;

        used = world_add(&world, &heap, 0, BLOCK);
        (void)world_alloc(&heap, BLOCK);
        (void)world_free(&heap, 0);
        fresh = world_add(&world, &heap, BLOCK, BLOCK);
        ck_assert(heap_is_idle(&heap, fresh));
        ck_assert(!heap_is_idle(&heap, used));
        heap.n_done_epochs = heap_new_epoch(&heap) + 1;
        ck_assert(heap_is_idle(&heap, used));
}

TESTS_MAIN("heap", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
