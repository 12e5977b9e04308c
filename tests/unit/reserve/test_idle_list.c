/* SPDX-License-Identifier: Apache-2.0 */
/* The idle list by itself: which blocks it takes in, and finds revoked; and a lack of memory. The test plays the
 * daemon. The linker leads malloc, calloc and realloc through the functions below (--wrap). */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/idle_list.h"
#include "proto/board.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"
#include "tests/unit/support/failing_alloc.h"

#define BLOCK (2 * MIB)

static struct heap_world world;
static struct heap heap;
static struct idle_list idle_list;
static _Atomic uint64_t words[WORLD_BLOCKS_MAX];

static void begin(enum heap_runs runs)
{
        world_init(&world, 64 * GIB);
        heap_init(&heap, world.arena, runs);
        idle_list_init(&idle_list, world.arena, runs);
}

static void check_both(void)
{
        heap_check(&heap);
        heap_check(&idle_list.heap);
}

static void begin_joined(void)
{
        begin(HEAP_JOINED);
}

static void end(void)
{
        check_both();
        heap_deinit(&heap);
        idle_list_deinit(&idle_list);
        world_deinit(&world);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "idle_list, by runs", .limit_s = UNLIMITED, .stop = end};

/* In the heap, with a busy lease. */
static struct heap_block *add(uint64_t offset, uint64_t n_bytes)
{
        unsigned i = world.n_blocks;
        struct heap_block *block = world_add(&world, &heap, offset, n_bytes);

        block->lease = i + 1;
        block->word = &words[i];
        words[i] = board_word(block->lease, BOARD_BUSY);
        return block;
}

static void expect_word(const struct heap_block *block, enum board_state state)
{
        ck_assert_uint_eq(words[block - world.blocks], board_word(block->lease, state));
}

static void put(struct heap_block *block)
{
        ck_assert_int_eq(idle_list_put(&idle_list, block), 0);
        ck_assert(block->heap == &idle_list.heap);
        expect_word(block, BOARD_IDLE);
        check_both();
}

static void revoke(struct heap_block *block)
{
        ck_assert(board_step(block->word, block->lease, BOARD_IDLE, BOARD_REVOKED));
}

static void expect_revoked(struct heap_block *block)
{
        ck_assert_ptr_eq(idle_list_next_revoked(&idle_list), block);
        ck_assert(block->heap == NULL);
        world_remove(&world, block);
}

static void expect_no_revoked(void)
{
        ck_assert_ptr_null(idle_list_next_revoked(&idle_list));
}

/* Each of five is left, revoked or without its word: the way's digits say which. */
static void sweep_once(enum heap_runs runs, unsigned way)
{
        struct heap_block *block;
        unsigned n_left = 0, n_gone = 0;

        end();
        begin(runs);
        for (unsigned i = 0; i < 5; i++)
                put(add(i * BLOCK, BLOCK));
        for (unsigned i = 0, rest = way; i < 5; i++, rest /= 3) {
                if (rest % 3 == 0)
                        n_left++;
                else if (rest % 3 == 1)
                        revoke(&world.blocks[i]);
                else
                        world.blocks[i].word = NULL;
        }
        idle_list_sweep(&idle_list);
        heap_check(&idle_list.heap);
        ck_assert_uint_eq(idle_list.heap.n_blocks, n_left);
        for (unsigned i = 0, rest = way; i < 5; i++, rest /= 3)
                ck_assert(world.blocks[i].heap == (rest % 3 ? NULL : &idle_list.heap));
        for (; (block = idle_list_next_revoked(&idle_list)); n_gone++)
                world_remove(&world, block);
        ck_assert_uint_eq(n_left + n_gone, 5);
}

TEST(a_sweep_takes_off_what_was_revoked_or_lost_its_word, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1)
{
        for (unsigned way = 0; way < 3 * 3 * 3 * 3 * 3; way++)
                sweep_once((enum heap_runs)_i, way);
}

TEST(a_block_without_a_word_stays_in_its_heap)
{
        struct heap_block *block;

        block = add(0, BLOCK);
        block->word = NULL;
        ck_assert(!idle_list_may_have(block));
        ck_assert_int_eq(idle_list_put(&idle_list, block), 1);
        ck_assert(block->heap == &heap);
        expect_word(block, BOARD_BUSY);
}

/* A free slot; the lease's own id, but not busy; busy, but another's. */
static const uint64_t wrong_words[] = {
        0, 1 << 8, 1 << 8 | BOARD_IDLE, 1 << 8 | BOARD_REVOKED, 2 << 8 | BOARD_BUSY, UINT64_MAX};

TEST(a_wrong_word_is_left_alone_and_lost, .to = ARRAY_SIZE(wrong_words))
{
        struct heap_block *block;

        block = add(0, BLOCK);
        words[0] = wrong_words[_i];
        ck_assert(idle_list_may_have(block));
        ck_assert_int_eq(idle_list_put(&idle_list, block), 1);
        ck_assert_uint_eq(words[0], wrong_words[_i]);
        ck_assert(!idle_list_may_have(block));
        ck_assert(block->heap == &heap);
        ck_assert_uint_eq(world_alloc(&heap, BLOCK), 0);
}

/* Each call fails in its turn, for every block of many: those of the heap and those of the idle list. */
TEST(a_put_without_memory_changes_nothing, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1,
     .in = &without_start)
{
        unsigned n_grown = 0;

        begin((enum heap_runs)_i);
        for (unsigned i = 0; i < 100; i++)
                (void)add(i * BLOCK, BLOCK);
        /* Every other one first, so that each makes a hole of its own. */
        for (unsigned i = 0; i < 100; i++) {
                struct heap_block *block = &world.blocks[i < 50 ? 2 * i : 2 * (i - 50) + 1];
                int n_failures = 0, r;

                for (;;) {
                        n_until_failure = n_failures;
                        r = idle_list_put(&idle_list, block);
                        n_until_failure = -1;
                        if (r == 0)
                                break;
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert(block->heap == &heap);
                        expect_word(block, BOARD_BUSY);
                        check_both();
                        n_failures++;
                }
                expect_word(block, BOARD_IDLE);
                ck_assert_uint_eq(idle_list.heap.n_blocks, i + 1);
                check_both();
                n_grown += (unsigned)n_failures;
        }
        ck_assert_uint_ge(n_grown, 4);
}

static uint32_t spare_pieces(void)
{
        const struct extents *extents = &idle_list.heap.extents;

        return extents->n_unused + (extents->n_extents - extents->n_touched);
}

/* The middle one of three, and so many elsewhere that there are no pieces to take one out with. */
static struct heap_block *fill_pieces(void)
{
        for (uint64_t i = 0; i < 3; i++)
                put(add(i * BLOCK, BLOCK));
        for (uint64_t i = 0; spare_pieces() >= 4; i++)
                put(add(GIB + 2 * i * BLOCK, BLOCK));
        return &world.blocks[1];
}

TEST(a_take_without_memory_changes_nothing, .to = 2)
{
        struct heap_block *block;
        int r;

        block = fill_pieces();
        if (_i)
                revoke(block);
        n_until_failure = 0;
        r = idle_list_take(&idle_list, block);
        n_until_failure = -1;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert(block->heap == &idle_list.heap);
        expect_word(block, _i ? BOARD_REVOKED : BOARD_IDLE);
        expect_no_revoked();
        check_both();
        ck_assert_int_eq(idle_list_take(&idle_list, block), _i);
}

TEST(a_sweep_without_memory_is_made_good_by_the_next)
{
        struct heap_block *block;

        block = fill_pieces();
        revoke(block);
        n_until_failure = 0;
        idle_list_sweep(&idle_list);
        n_until_failure = -1;
        ck_assert(block->heap == &idle_list.heap);
        expect_no_revoked();
        check_both();
        idle_list_sweep(&idle_list);
        expect_revoked(block);
        expect_no_revoked();
}

TESTS_MAIN("idle_list", .limit_s = UNLIMITED, .start = begin_joined, .stop = end)
