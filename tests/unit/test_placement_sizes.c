/* SPDX-License-Identifier: Apache-2.0 */
/* How much is leased, and in what blocks: in parts for runs that are joined, in one block for each run
 * that is kept apart. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/placement.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap_world.h"

#define BLOCK (2 * MIB)
#define PEAK  (64 * GIB)

static struct heap_world world;
static struct heap heap;
static struct placement plan;

static int plan_for(uint64_t n_bytes, uint64_t n_peak_bytes, uint64_t n_spare_bytes)
{
        struct placement_terms terms = {.n_peak_bytes = n_peak_bytes,
                                        .n_block_bytes = n_peak_bytes / 1024,
                                        .n_spare_bytes = n_spare_bytes};

        return placement_plan(&heap, n_bytes, &terms, &plan);
}

static void begin(enum heap_runs runs)
{
        world_init(&world, 128 * GIB);
        heap_init(&heap, world.arena, runs);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

static void make_plan(uint64_t n_bytes, uint64_t n_peak_bytes, uint64_t n_spare_bytes)
{
        ck_assert_int_eq(plan_for(n_bytes, n_peak_bytes, n_spare_bytes), 0);
}

static void expect_range(uint64_t start, uint64_t end_offset)
{
        ck_assert_uint_eq(plan.start, WORLD_START + start);
        ck_assert_uint_eq(plan.end, WORLD_START + end_offset);
}

static void expect_part(unsigned i, uint64_t start, uint64_t n_bytes)
{
        ck_assert_uint_lt(i, plan.n_parts);
        ck_assert_uint_eq(plan.parts[i].start, WORLD_START + start);
        ck_assert_uint_eq(plan.parts[i].n_bytes, n_bytes);
}

static void expect_one_part(uint64_t start, uint64_t n_bytes)
{
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, n_bytes);
        expect_part(0, start, n_bytes);
}

static const struct {
        uint64_t n_bytes, n_peak_bytes, n_part_bytes;
} part_rows[] = {
        {GIB, 0, 128 * MIB},         /* an eighth of the request */
        {GIB, 128 * GIB, 128 * MIB}, /* as much as 1/1024 of the peak */
        {GIB, 256 * GIB, 256 * MIB}, /* 1/1024 of the peak */
        {GIB, 192 * GIB, 192 * MIB}, /* sizes are 2^n and 3 * 2^n */
        {GIB, 224 * GIB, 256 * MIB}, /* and rounded up */
        {GIB, TIB, GIB},             /* one block for all */
        {15 * GIB, GIB, 2 * GIB},    /* 1920 MiB rounded up */
};

TEST(parts_are_no_larger_than_that, .to = ARRAY_SIZE(part_rows))
{
        uint64_t n_bytes = part_rows[_i].n_bytes, n_part = part_rows[_i].n_part_bytes, at = 0;

        begin(HEAP_JOINED);
        make_plan(n_bytes, part_rows[_i].n_peak_bytes, 0);
        ck_assert_uint_eq(plan.n_parts, (n_bytes + n_part - 1) / n_part);
        for (unsigned i = 0; i < plan.n_parts; i++) {
                expect_part(i, at, n_bytes - at < n_part ? n_bytes - at : n_part);
                at += n_part;
        }
        ck_assert_uint_eq(plan.n_bytes, n_bytes);
        end();
}

/* 512 MiB are 1/128 of the peak. */
static const struct {
        uint64_t n_bytes, n_spare_bytes, n_leased_bytes;
} ahead_rows[] = {
        {MIB, 0, BLOCK},
        {MIB, BLOCK - 1, BLOCK},
        {MIB, BLOCK, 2 * BLOCK},
        {MIB, 100 * MIB, 102 * MIB},
        {MIB, GIB, 512 * MIB},
        {510 * MIB, GIB, 512 * MIB},
        {512 * MIB, GIB, 512 * MIB},
        {600 * MIB, GIB, 600 * MIB},
};

TEST(a_heap_grows_ahead_within_what_is_spare, .to = ARRAY_SIZE(ahead_rows))
{
        begin(HEAP_JOINED);
        make_plan(ahead_rows[_i].n_bytes, PEAK, ahead_rows[_i].n_spare_bytes);
        ck_assert_uint_eq(plan.n_bytes, ahead_rows[_i].n_leased_bytes);
        expect_range(0, ahead_rows[_i].n_leased_bytes);
        end();
}

TEST(a_heap_grows_ahead_into_free_addresses_only)
{
        begin(HEAP_JOINED);
        (void)world_add(&world, &heap, 0, BLOCK);
        (void)world_put(&world, 16 * MIB, 128 * GIB - 16 * MIB);
        make_plan(4 * MIB, PEAK, PEAK);
        expect_range(0, 16 * MIB);
        expect_one_part(BLOCK, 14 * MIB);
        end();
}

/* What the heap has, what is asked for, and the block that is leased when enough is spare. */
static const struct {
        uint64_t n_reserved_bytes, n_bytes, n_block_bytes;
} rows[] = {
        {0, 1, 2 * MIB},          {0, 2 * MIB, 2 * MIB},           {0, 2 * MIB + 1, 4 * MIB},
        {0, 64 * MIB, 64 * MIB},  {0, 64 * MIB + 1, 66 * MIB},     {16 * MIB, 1, 2 * MIB},
        {32 * MIB, 1, 4 * MIB},   {32 * MIB, 5 * MIB, 6 * MIB},    {512 * MIB, 1, 64 * MIB},
        {100 * GIB, 1, 64 * MIB}, {100 * GIB, 65 * MIB, 66 * MIB}, {100 * GIB, GIB, GIB},
};

TEST(blocks_grow_with_the_heap, .to = ARRAY_SIZE(rows))
{
        uint64_t n_reserved = rows[_i].n_reserved_bytes;

        begin(HEAP_SPLIT);
        if (n_reserved)
                (void)world_add(&world, &heap, 128 * GIB - n_reserved, n_reserved);
        ck_assert_int_eq(plan_for(rows[_i].n_bytes, TIB, GIB), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.parts[0].n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.end - plan.start, rows[_i].n_block_bytes);
        end();
}

TEST(without_spare_bytes_a_block_is_what_is_asked_for)
{
        begin(HEAP_SPLIT);
        (void)world_add(&world, &heap, 64 * GIB, 64 * GIB);
        ck_assert_int_eq(plan_for(3 * MIB, TIB, 0), 0);
        ck_assert_uint_eq(plan.n_bytes, 4 * MIB);
        end();
}

/* Next to what is there, and yet a block of the whole request. */
TEST(holes_are_not_added_to)
{
        begin(HEAP_SPLIT);
        (void)world_add(&world, &heap, 128 * GIB - 8 * MIB, 8 * MIB);
        ck_assert_int_eq(plan_for(10 * MIB, TIB, 0), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, WORLD_START + 128 * GIB - 18 * MIB);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 10 * MIB);
        (void)world_add(&world, &heap, 128 * GIB - 18 * MIB, 10 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 10 * MIB), 128 * GIB - 18 * MIB);
        end();
}

TEST(what_no_gap_holds_has_no_place)
{
        begin(HEAP_SPLIT);
        (void)world_add(&world, &heap, 0, 64 * GIB);
        ck_assert_int_eq(plan_for(64 * GIB + 1, TIB, 0), -ENOMEM);
        ck_assert_int_eq(plan_for(UINT64_MAX, TIB, 0), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(plan_for(64 * GIB, TIB, GIB), 0);
        ck_assert_uint_eq(plan.n_bytes, 64 * GIB);
        end();
}

TESTS_MAIN("placement_sizes", .limit_s = UNLIMITED)
