/* SPDX-License-Identifier: Apache-2.0 */
/* Bookkeeping that cannot be allocated: -ENOMEM, and nothing has changed. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/heap_set.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"
#include "tests/unit/support/failing_alloc.h"

#define UNTOUCHED UINT64_C(0x5555555555555555)

static struct heap_world world;
static struct heap_set set;
static struct set_heap heaps[2];

static void begin(void)
{
        world_init(&world, 64 * GIB);
        heap_set_init(&set);
        heap_set_open(&set, world.arena, HEAP_JOINED);
        heap_set_add(&set, &heaps[0], HEAP_JOINED);
        heap_set_add(&set, &heaps[1], HEAP_JOINED);
}

static void end(void)
{
        for (unsigned i = 0; i < 2; i++) {
                heap_check(&heaps[i].heap);
                heap_set_remove(&set, &heaps[i]);
        }
        world_deinit(&world);
}

/* The heap's figures; what grows in advance may have grown. */
struct figures {
        uint64_t n_blocks, n_requested_bytes, n_allocated_bytes, n_reserved_bytes, n_freed_bytes;
        uint64_t n_free, n_extents, n_starts;
};

static struct figures figures_of(const struct heap *heap)
{
        return (struct figures){heap->n_blocks,
                                heap->n_requested_bytes,
                                heap->n_allocated_bytes,
                                heap->n_reserved_bytes,
                                heap->n_freed_bytes,
                                heap->extents.n_free,
                                heap->extents.n_touched - heap->extents.n_unused,
                                heap->alloc_table.n_entries};
}

static void expect_unchanged(const struct heap *heap, const struct figures *before)
{
        struct figures after = figures_of(heap);

        heap_check(heap);
        /* The piece that is none is counted once there are any. */
        if (!before->n_extents)
                after.n_extents = 0;
        ck_assert_mem_eq(&after, before, sizeof(after));
}

/* Record and table of granules: each call fails in its turn. */
TEST(an_arena_without_memory)
{
        struct arena *arena = NULL;
        int n_failures = 0, r;

        for (;;) {
                n_until_failure = n_failures;
                r = arena_new(WORLD_START, GIB, &arena);
                n_until_failure = -1;
                if (r == 0)
                        break;
                ck_assert_int_eq(r, -ENOMEM);
                ck_assert_ptr_null(arena);
                n_failures++;
        }
        ck_assert_int_eq(n_failures, 2);
        arena_free(arena);
}

TEST(a_block_that_the_arena_has_no_memory_for)
{
        struct arena_block block = {WORLD_START + 4 * MIB, 2 * MIB};
        int r;

        n_until_failure = 0;
        r = arena_put(world.arena, &block);
        n_until_failure = -1;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert_ptr_null(arena_find(world.arena, block.start));
        ck_assert_uint_eq(arena_room_above(world.arena, WORLD_START), 64 * GIB);
        ck_assert_int_eq(arena_put(world.arena, &block), 0);
        arena_take_out(world.arena, &block);
}

/* The array of blocks, and pieces. */
TEST(blocks_without_memory)
{
        struct heap *heap = &heaps[0].heap;
        unsigned n_grown = 0;

        for (unsigned i = 0; i < 200; i++) {
                struct heap_block *block = world_put(&world, i * 4 * MIB, 2 * MIB);
                struct figures before = figures_of(heap);
                int n_failures = 0, r;

                for (;;) {
                        n_until_failure = n_failures;
                        r = heap_add_block(heap, block);
                        n_until_failure = -1;
                        if (r == 0)
                                break;
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert(block->heap == NULL);
                        expect_unchanged(heap, &before);
                        n_failures++;
                }
                ck_assert_int_le(n_failures, 2);
                ck_assert(i > 0 || n_failures == 2);
                n_grown += (unsigned)n_failures;
        }
        ck_assert_uint_ge(n_grown, 8);
}

/* Such as have places in slabs, and such as have not. */
static uint64_t n_bytes_of(unsigned i)
{
        return i % 2 ? 1 + i : 10 * KIB;
}

/* Every allocation is tried with each of its calls failing, until it succeeds. */
TEST(allocations_without_memory)
{
        struct heap *heap = &heaps[0].heap;
        unsigned n_grown = 0;

        (void)world_add(&world, heap, 0, 64 * MIB);
        for (unsigned i = 0; i < 3000; i++) {
                struct figures before = figures_of(heap);
                uint64_t address = UNTOUCHED;
                int n_failures = 0, r;

                for (;;) {
                        n_until_failure = n_failures;
                        r = heap_alloc(heap, n_bytes_of(i), &address);
                        n_until_failure = -1;
                        if (r == 0)
                                break;
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert_uint_eq(address, UNTOUCHED);
                        expect_unchanged(heap, &before);
                        n_failures++;
                }
                ck_assert_int_le(n_failures, 2);
                n_grown += (unsigned)n_failures;
        }
        ck_assert_uint_ge(n_grown, 10);
}

/* A process that is out of memory can still free and reuse: neither needs any. */
TEST(frees_and_exact_fits_need_no_memory)
{
        struct heap *heap = &heaps[0].heap;
        struct heap_freed freed;
        uint64_t addresses[100], address;
        int r, n_attempts, n_refused = 0;

        (void)world_add(&world, heap, 0, 2 * MIB);
        for (unsigned i = 0; i < 100; i++)
                ck_assert_int_eq(heap_alloc(heap, 512, &addresses[i]), 0);
        /* No ck_assert in between: it allocates. */
        n_until_failure = 0;
        n_refused += heap_free(heap, addresses[50], &freed) != 0;
        r = heap_alloc(heap, 512, &address);
        for (unsigned i = 0; i < 100; i++)
                n_refused += heap_free(heap, addresses[i], &freed) != 0;
        n_attempts = n_until_failure != 0;
        n_until_failure = -1;
        ck_assert_int_eq(r, 0);
        ck_assert_uint_eq(address, addresses[50]);
        ck_assert_int_eq(n_refused, 0);
        ck_assert_int_eq(n_attempts, 0);
        ck_assert_uint_eq(freed.n_extent_bytes, 2 * MIB);
}

/* So many allocations that no piece is unused, and a run of three empty blocks above them. */
static void fill_pieces(struct heap *heap)
{
        for (uint64_t i = 0; i < 3; i++)
                (void)world_add(&world, heap, GIB + i * 2 * MIB, 2 * MIB);
        (void)world_add(&world, heap, 0, 4 * MIB);
        while (heap->extents.n_unused + heap->extents.n_extents != heap->extents.n_touched)
                (void)world_alloc(heap, 60 * KIB);
}

/* To take it out of the middle of a hole makes two holes and two edges. */
TEST(a_block_that_cannot_leave_stays)
{
        struct heap *heap = &heaps[0].heap;
        struct figures before;
        struct heap_block *middle;
        int r;

        fill_pieces(heap);
        middle = heap_block_at(world.arena, WORLD_START + GIB + 2 * MIB);
        before = figures_of(heap);
        ck_assert_uint_ne(heap_block_extent(heap, middle), 0);
        n_until_failure = 0;
        r = heap_remove_block(heap, middle);
        n_until_failure = -1;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert(middle->heap == heap);
        expect_unchanged(heap, &before);
        ck_assert_int_eq(heap_remove_block(heap, middle), 0);
        heap_check(heap);
}

TEST(an_idle_block_that_cannot_leave_stays)
{
        struct heap *heap = &heaps[0].heap;
        struct heap_block *taken;
        struct figures before;

        fill_pieces(heap);
        before = figures_of(heap);
        n_until_failure = 0;
        taken = heap_set_take_idle(&set, 0, 0);
        n_until_failure = -1;
        ck_assert_ptr_null(taken);
        expect_unchanged(heap, &before);
        ck_assert_ptr_eq(heap_set_take_idle(&set, 0, 0), &world.blocks[0]);
}

/* The heap that gets blocks needs room for them and for pieces, the one that gives for pieces. */
TEST(blocks_without_memory_to_move_stay)
{
        struct heap *to = &heaps[0].heap, *from = &heaps[1].heap;
        struct figures before[2];
        /* What was got before a call failed is there at the next attempt. */
        static const int n_until[] = {0, 1, 1};
        bool adopted;

        fill_pieces(from);
        before[0] = figures_of(to);
        before[1] = figures_of(from);
        for (unsigned i = 0; i < ARRAY_SIZE(n_until); i++) {
                n_until_failure = n_until[i];
                adopted = heap_set_adopt(&set, &heaps[0], 2 * MIB);
                n_until_failure = -1;
                ck_assert(!adopted);
                expect_unchanged(to, &before[0]);
                expect_unchanged(from, &before[1]);
        }
        ck_assert(heap_set_adopt(&set, &heaps[0], 2 * MIB));
        ck_assert_uint_eq(to->n_blocks, 1);
        ck_assert_uint_eq(to->n_reserved_bytes, 2 * MIB);
        ck_assert_uint_eq(from->n_reserved_bytes, before[1].n_reserved_bytes - 2 * MIB);
}

/* The first moves, and for the second there is no room: what the heap has got it keeps. */
TEST(blocks_that_moved_before_memory_ran_out_are_in_their_heap)
{
        struct heap *to = &heaps[0].heap, *from = &heaps[1].heap;
        bool adopted;

        for (uint64_t i = 0; i < 15; i++)
                (void)world_add(&world, to, GIB + i * 4 * MIB, 2 * MIB);
        ck_assert_int_eq(extents_reserve(&to->extents, 8), 0);
        (void)world_add(&world, from, 0, 2 * MIB);
        (void)world_add(&world, from, 2 * MIB, 2 * MIB);
        n_until_failure = 0;
        adopted = heap_set_adopt(&set, &heaps[0], 4 * MIB);
        n_until_failure = -1;
        ck_assert(!adopted);
        ck_assert_uint_eq(to->n_blocks, 16);
        ck_assert_uint_eq(from->n_reserved_bytes, 2 * MIB);
        ck_assert(world.blocks[15].heap == to);
        ck_assert(world.blocks[16].heap == from);
}

TESTS_MAIN("heap_oom", .limit_s = UNLIMITED, .start = begin, .stop = end)
