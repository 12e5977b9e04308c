/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of a pool: where blocks may stand, and whose an address is. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/heap/arena.h"
#include "tests/random.h"
#include "tests/suite.h"

#define START    (UINT64_C(1) << 44)
#define GRANULE  ARENA_GRANULE
#define N_BLOCKS 200

static struct arena *arena;

static void begin(uint64_t n_granules)
{
        ck_assert_int_eq(arena_new(START, n_granules * GRANULE, &arena), 0);
        ck_assert_uint_eq(arena_start(arena), START);
}

static void begin_hundred(void)
{
        begin(100);
}

static void end(void)
{
        arena = arena_free(arena);
        ck_assert_ptr_null(arena);
        ck_assert_ptr_null(arena_free(NULL));
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "arena, of another size", .limit_s = UNLIMITED, .stop = end};

static struct arena_block block_at(uint64_t granule, uint64_t n_granules)
{
        return (struct arena_block){START + granule * GRANULE, n_granules * GRANULE};
}

static void put(struct arena_block *block)
{
        ck_assert_int_eq(arena_put(arena, block), 0);
}

/* In granules. */
static uint64_t choose(uint64_t n_granules, enum arena_wish wish)
{
        uint64_t start;

        ck_assert_int_eq(arena_choose(arena, n_granules * GRANULE, wish, &start), 0);
        ck_assert_uint_eq((start - START) % GRANULE, 0);
        return (start - START) / GRANULE;
}

TEST(blocks_are_found_one_after_another, .in = &without_start)
{
        struct arena_block first = block_at(3, 2), second = block_at(5, 1), third = block_at(9, 1);

        begin(10);
        ck_assert_ptr_null(arena_next(arena, START));
        put(&third);
        put(&first);
        put(&second);
        ck_assert_ptr_eq(arena_next(arena, START), &first);
        ck_assert_ptr_eq(arena_next(arena, first.start), &first);
        ck_assert_ptr_eq(arena_next(arena, first.start + GRANULE), &second);
        ck_assert_ptr_eq(arena_next(arena, second.start + GRANULE), &third);
        ck_assert_ptr_null(arena_next(arena, third.start + GRANULE));
}

/* In the middle of the part's largest gap, whichever it is. */
TEST(apart_leaves_room_on_both_sides)
{
        struct arena_block first = block_at(50, 5), second, third = block_at(60, 3);

        ck_assert_uint_eq(choose(10, ARENA_LARGE), 50);
        put(&first);
        ck_assert_uint_eq(choose(10, ARENA_LARGE), 72);
        ck_assert_uint_eq(choose(11, ARENA_LARGE), 72);
        second = block_at(72, 10);
        put(&second);
        ck_assert_uint_eq(choose(10, ARENA_LARGE), 86);
        put(&third);
        ck_assert_uint_eq(choose(2, ARENA_LARGE), 90);
}

/* A block that reaches into the next part leaves less of it. */
TEST(each_size_has_a_part)
{
        struct arena_block first = block_at(20, 7), all = block_at(27, 23);

        ck_assert_uint_eq(choose(1, ARENA_SMALL), 0);
        ck_assert_uint_eq(choose(25, ARENA_MEDIUM), 25);
        put(&first);
        ck_assert_uint_eq(choose(20, ARENA_SMALL), 0);
        ck_assert_uint_eq(choose(23, ARENA_MEDIUM), 27);
        put(&all);
        ck_assert_uint_eq(choose(1, ARENA_MEDIUM), 74);
        ck_assert_uint_eq(choose(40, ARENA_SMALL), 55);
}

/* The blocks of an array, each at a place of its own; no length: it is not there. */
static unsigned n_wrong(const struct arena_block *blocks)
{
        unsigned n = 0;

        for (uint64_t i = 0; i < N_BLOCKS; i++) {
                uint64_t first = START + i * 4 * GRANULE;

                for (uint64_t at = first; at < first + 4 * GRANULE; at += GRANULE)
                        n += arena_find(arena, at) !=
                             (at < first + blocks[i].n_bytes ? &blocks[i] : NULL);
        }
        return n;
}

TEST(blocks_come_and_go_in_any_order, .in = &without_start)
{
        static struct arena_block blocks[N_BLOCKS];
        struct test_random random = test_random_begin();

        begin(N_BLOCKS * 4);
        for (uint64_t step = 0, n_steps = test_n_steps() / 10; step < n_steps; step++) {
                uint64_t i = test_random_below(&random, N_BLOCKS);

                if (blocks[i].n_bytes) {
                        arena_take_out(arena, &blocks[i]);
                        blocks[i].n_bytes = 0;
                } else {
                        blocks[i] = block_at(i * 4, 1 + test_random_below(&random, 4));
                        put(&blocks[i]);
                }
                ck_assert_uint_eq(n_wrong(blocks), 0);
        }
}

static void add(uint64_t granule, uint64_t n_granules)
{
        ck_assert_int_eq(arena_add(arena, START + granule * GRANULE, n_granules * GRANULE), 0);
}

/* One reservation is not another, though they stand side by side. */
TEST(no_block_crosses_from_range_to_range, .in = &without_start)
{
        uint64_t start;

        ck_assert_int_eq(arena_new_span(START, 100 * GRANULE, &arena), 0);
        add(40, 10);
        add(30, 10);
        add(50, 10);
        ck_assert_int_eq(arena_choose(arena, 11 * GRANULE, ARENA_CLOSE, &start), -ENOMEM);
        ck_assert_uint_eq(arena_room_above(arena, START + 30 * GRANULE), 9 * GRANULE);
        ck_assert_uint_eq(arena_room_above(arena, START + 39 * GRANULE), 0);
        ck_assert_uint_eq(arena_room_below(arena, START + 50 * GRANULE), 10 * GRANULE);
        ck_assert_uint_eq(arena_room_above(arena, START + 50 * GRANULE), 0);
        ck_assert_uint_eq(arena_room_above(arena, START + 51 * GRANULE), 9 * GRANULE);
}

TEST(addresses_outside_are_refused, .in = &without_start)
{
        ck_assert_int_eq(arena_new_span(START, 100 * GRANULE, &arena), 0);
        ck_assert_int_eq(arena_add(arena, START - GRANULE, 2 * GRANULE), -ERANGE);
        ck_assert_int_eq(arena_add(arena, START + 99 * GRANULE, 2 * GRANULE), -ERANGE);
        ck_assert_int_eq(arena_add(arena, START, 101 * GRANULE), -ERANGE);
        add(10, 1);
        ck_assert_int_eq(arena_add(arena, START + 11 * GRANULE, GRANULE), -ERANGE);
        add(12, 1);
}

TESTS_MAIN("arena", .limit_s = UNLIMITED, .start = begin_hundred, .stop = end)
