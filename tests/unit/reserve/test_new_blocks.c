/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory comes from that a heap lacks, how much is leased, and in what blocks: in parts for runs that are
 * joined, in one block for each run that is kept apart. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/new_blocks.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

#define BLOCK (2 * MIB)
#define PEAK  (64 * GIB) /* parts of 2 GiB */

static struct heap_world world;
static struct heap heap, other;
static struct new_blocks plan;
static uint64_t base; /* of the addresses that tests speak of */

static int plan_for(uint64_t n_bytes, uint64_t n_peak_bytes, uint64_t n_spare_bytes)
{
        struct new_blocks_terms terms = {.n_peak_bytes = n_peak_bytes,
                                         .n_block_bytes = n_peak_bytes / 1024,
                                         .n_spare_bytes = n_spare_bytes};

        return new_blocks_plan(&heap, n_bytes, &terms, &plan);
}

static void begin(enum heap_runs runs, uint64_t n_bytes)
{
        base = 0;
        world_init(&world, n_bytes);
        heap_init(&heap, world.arena, runs);
        heap_init(&other, world.arena, runs);
}

/* The part of the arena for requests of 2 to 64 MiB has so many bytes. */
static void begin_medium(uint64_t n_bytes)
{
        begin(HEAP_JOINED, 4 * n_bytes);
        base = n_bytes;
}

/* The part for requests of 64 MiB and more. */
static void begin_large(uint64_t n_bytes)
{
        begin(HEAP_JOINED, 2 * n_bytes);
        base = n_bytes;
}

static void begin_most(void)
{
        begin_medium(GIB);
        (void)world_put(&world, base - BLOCK, BLOCK);
}

static void end(void)
{
        heap_deinit(&heap);
        heap_deinit(&other);
        world_deinit(&world);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {
        .name = "new_blocks, large", .limit_s = UNLIMITED, .stop = end};

static void add(uint64_t offset, uint64_t n_bytes)
{
        (void)world_add(&world, &heap, base + offset, n_bytes);
}

static void add_other(uint64_t offset, uint64_t n_bytes)
{
        (void)world_add(&world, &other, base + offset, n_bytes);
}

/* An allocation of exactly a hole's size is where the hole was. */
static void fill(uint64_t n_bytes, uint64_t offset)
{
        ck_assert_uint_eq(world_alloc(&heap, n_bytes), base + offset);
}

static void give(uint64_t offset)
{
        (void)world_free(&heap, base + offset);
}

static void make_plan(uint64_t n_bytes, uint64_t n_peak_bytes, uint64_t n_spare_bytes)
{
        ck_assert_int_eq(plan_for(n_bytes, n_peak_bytes, n_spare_bytes), 0);
}

static void expect_range(uint64_t start, uint64_t end_offset)
{
        ck_assert_uint_eq(plan.start, WORLD_START + base + start);
        ck_assert_uint_eq(plan.end, WORLD_START + base + end_offset);
}

static void expect_part(unsigned i, uint64_t start, uint64_t n_bytes)
{
        ck_assert_uint_lt(i, plan.n_parts);
        ck_assert_uint_eq(plan.parts[i].start, WORLD_START + base + start);
        ck_assert_uint_eq(plan.parts[i].n_bytes, n_bytes);
}

static void expect_one_part(uint64_t start, uint64_t n_bytes)
{
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, n_bytes);
        expect_part(0, start, n_bytes);
}

/* Leases it: then the request has its hole. */
static void carry_out(uint64_t n_bytes)
{
        uint64_t at;

        for (unsigned i = 0; i < plan.n_parts; i++)
                (void)world_add(&world, &heap, plan.parts[i].start - WORLD_START,
                                plan.parts[i].n_bytes);
        at = WORLD_START + world_alloc(&heap, n_bytes);
        ck_assert_uint_ge(at, plan.start);
        ck_assert_uint_le(at + n_bytes, plan.end);
}

/* Far from what others have. */
TEST(the_next_heap_begins_elsewhere)
{
        add_other(0, 24 * MIB);
        make_plan(BLOCK, PEAK, 0);
        expect_one_part(24 * MIB + 498 * MIB, BLOCK); /* of a gap of 1000 MiB */
}

/* 3 MiB below the gap of 4 and 2 above it. */
TEST(a_gap_between_two_holes_is_bridged)
{
        add(12 * MIB, 4 * MIB);
        fill(BLOCK, 12 * MIB);
        fill(BLOCK, 14 * MIB);
        give(12 * MIB);
        add(0, 8 * MIB);
        fill(5 * MIB, 0);
        make_plan(8 * MIB, PEAK, PEAK);
        expect_range(5 * MIB, 14 * MIB);
        expect_one_part(8 * MIB, 4 * MIB);
        carry_out(8 * MIB);
}

/* Two gaps, between them a run that is empty from end to end; not one in which anything is. */
TEST(an_empty_run_is_passed_over)
{
        add(0, 8 * MIB);
        fill(8 * MIB, 0);
        add(10 * MIB, 8 * MIB);
        add(20 * MIB, 4 * MIB);
        fill(4 * MIB, 20 * MIB);
        make_plan(12 * MIB, PEAK, 0);
        expect_range(8 * MIB, 20 * MIB);
        ck_assert_uint_eq(plan.n_parts, 2);
        expect_part(0, 8 * MIB, BLOCK);
        expect_part(1, 18 * MIB, BLOCK);
        carry_out(12 * MIB);
}

TEST(a_run_in_use_is_not_passed_over)
{
        add(0, 8 * MIB);
        fill(8 * MIB, 0);
        add(10 * MIB, 8 * MIB);
        fill(7 * MIB, 10 * MIB);
        (void)world_alloc(&heap, 512);
        give(10 * MIB);
        add(20 * MIB, 4 * MIB);
        fill(4 * MIB, 20 * MIB);
        make_plan(12 * MIB, PEAK, 0);
        ck_assert_uint_ge(plan.start, WORLD_START + base + 24 * MIB);
        ck_assert_uint_eq(plan.n_bytes, 12 * MIB);
}

/* Every second block is there and empty; the request needs that many gaps. */
static const struct {
        uint64_t n_gaps;
        bool bridged;
} gap_rows[] = {{2, true}, {15, true}, {16, true}, {17, false}, {30, false}};

TEST(so_many_gaps_and_no_more, .to = ARRAY_SIZE(gap_rows), .in = &without_start)
{
        uint64_t n_gaps = gap_rows[_i].n_gaps, n_bytes = n_gaps * 40 * MIB + n_gaps * 20 * MIB;

        begin_large(8 * GIB);
        add_other(0, BLOCK);
        for (uint64_t i = 0; i < n_gaps; i++)
                add(BLOCK + i * 60 * MIB, 40 * MIB);
        add_other(BLOCK + n_bytes, BLOCK);
        make_plan(n_bytes, PEAK, 0);
        if (gap_rows[_i].bridged) {
                expect_range(BLOCK, BLOCK + n_bytes);
                ck_assert_uint_eq(plan.n_parts, n_gaps);
                ck_assert_uint_eq(plan.n_bytes, n_gaps * 20 * MIB);
        } else {
                ck_assert_uint_eq(plan.n_bytes, n_bytes);
        }
        carry_out(n_bytes);
}

/* The place where the least is missing, though another comes first. */
TEST(the_place_where_least_is_missing_is_chosen)
{
        for (uint64_t i = 0; i < 5; i++) {
                add(i * 100 * MIB, 40 * MIB);
                fill(40 * MIB, i * 100 * MIB);
        }
        give(100 * MIB);
        fill(37 * MIB, 100 * MIB);
        give(300 * MIB);
        fill(31 * MIB, 300 * MIB);
        give(200 * MIB);
        fill(33 * MIB, 200 * MIB);
        make_plan(15 * MIB, PEAK, 0);
        expect_range(331 * MIB, 346 * MIB);
        expect_one_part(340 * MIB, 6 * MIB);
}

/* Over two empty runs 20 MiB are missing in two gaps; above another run in one gap as many, or 2 MiB
 * more. */
static const uint64_t lone_rows[] = {20 * MIB, 18 * MIB};

TEST(a_lease_is_worth_half_a_granule, .to = ARRAY_SIZE(lone_rows))
{
        uint64_t n_lone = lone_rows[_i];

        add(42 * MIB, 10 * MIB);
        fill(10 * MIB, 42 * MIB);
        add_other(0, BLOCK);
        add(2 * MIB, 10 * MIB);
        add(22 * MIB, 10 * MIB);
        add(100 * MIB, n_lone);
        make_plan(40 * MIB, PEAK, 0);
        if (n_lone == 20 * MIB)
                expect_range(100 * MIB, 140 * MIB);
        else
                expect_range(BLOCK, 42 * MIB);
        carry_out(40 * MIB);
}

TEST(what_no_gap_holds_has_no_place)
{
        ck_assert_int_eq(plan_for(4 * GIB + 1, PEAK, 0), -ENOMEM);
        add_other(GIB, BLOCK);
        ck_assert_int_eq(plan_for(2 * GIB + 2 * MIB, PEAK, 0), -ENOMEM);
        ck_assert_int_eq(plan_for(UINT64_MAX / 2, PEAK, 0), -ENOMEM);
        ck_assert_int_eq(plan_for(UINT64_MAX / 2 + 1, PEAK, 0), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(plan_for(UINT64_MAX, PEAK, 0), GPUMEM_E_TOO_LARGE);
}

/* Together with the hole before it, all of the part. */
TEST(the_last_addresses_are_used, .in = &without_start)
{
        begin_large(GIB);
        add(0, 512 * MIB);
        make_plan(GIB, PEAK, PEAK);
        expect_range(0, GIB);
        ck_assert_uint_eq(plan.n_bytes, 512 * MIB);
        carry_out(GIB);
}

static const struct {
        uint64_t n_bytes, n_peak_bytes, n_part_bytes;
} part_rows[] = {
        {512 * MIB, 0, 64 * MIB},         /* an eighth of the request */
        {512 * MIB, 8 * GIB, 64 * MIB},   /* as much as 1/128 of the peak */
        {512 * MIB, 16 * GIB, 128 * MIB}, /* 1/128 of the peak */
        {512 * MIB, 24 * GIB, 192 * MIB}, /* sizes are 2^n and 3 * 2^n */
        {512 * MIB, 28 * GIB, 256 * MIB}, /* and rounded up */
        {512 * MIB, 64 * GIB, 512 * MIB}, /* one block for all */
        {2 * GIB, TIB, GIB},              /* and no larger */
        {15 * GIB, GIB, GIB},             /* whatever the request */
        {96 * GIB, GIB, 2 * GIB},         /* unless they would be too many */
};

TEST(parts_are_no_larger_than_that, .to = ARRAY_SIZE(part_rows), .in = &without_start)
{
        uint64_t n_bytes = part_rows[_i].n_bytes, n_part = part_rows[_i].n_part_bytes, at = 0;

        begin_large(128 * GIB);
        make_plan(n_bytes, part_rows[_i].n_peak_bytes, 0);
        ck_assert_uint_eq(plan.n_parts, (n_bytes + n_part - 1) / n_part);
        for (unsigned i = 0; i < plan.n_parts; i++) {
                expect_part(i, at, n_bytes - at < n_part ? n_bytes - at : n_part);
                at += n_part;
        }
        ck_assert_uint_eq(plan.n_bytes, n_bytes);
}

/* 512 MiB are 1/128 of the peak. */
static const struct {
        uint64_t n_bytes, n_spare_bytes, n_leased_bytes;
} ahead_rows[] = {
        {4 * MIB, 0, 2 * BLOCK},     {4 * MIB, BLOCK - 1, 2 * BLOCK},
        {4 * MIB, BLOCK, 3 * BLOCK}, {4 * MIB, 100 * MIB, 104 * MIB},
        {4 * MIB, GIB, 512 * MIB},   {62 * MIB, GIB, 512 * MIB},
};

TEST(a_heap_grows_ahead_within_what_is_spare, .to = ARRAY_SIZE(ahead_rows), .in = &without_start)
{
        begin_medium(32 * GIB);
        make_plan(ahead_rows[_i].n_bytes, PEAK, ahead_rows[_i].n_spare_bytes);
        ck_assert_uint_eq(plan.n_bytes, ahead_rows[_i].n_leased_bytes);
        expect_range(0, ahead_rows[_i].n_leased_bytes);
}

TEST(a_large_request_may_be_larger_than_what_is_leased_ahead, .in = &without_start)
{
        begin_large(32 * GIB);
        make_plan(600 * MIB, PEAK, GIB);
        ck_assert_uint_eq(plan.n_bytes, 600 * MIB);
}

/* Small requests, those from 2 MiB on, those from 64 MiB on. */
static const struct {
        uint64_t n_bytes, part_offset;
} size_rows[] = {
        {1, 0},        {2 * MIB - 1, 0}, {2 * MIB, GIB}, {64 * MIB - 1, GIB}, {64 * MIB, 2 * GIB},
        {GIB, 2 * GIB}};

TEST(each_size_has_its_part, .to = ARRAY_SIZE(size_rows))
{
        make_plan(size_rows[_i].n_bytes, PEAK, 0);
        ck_assert_uint_eq(plan.start, WORLD_START + size_rows[_i].part_offset);
        carry_out(size_rows[_i].n_bytes);
}

/* Its blocks stand in another part, are in use, and have room behind them. */
TEST(blocks_of_another_size_do_not_grow, .to = ARRAY_SIZE(size_rows))
{
        for (unsigned i = 0; i < ARRAY_SIZE(size_rows); i++) {
                if (size_rows[i].part_offset == size_rows[_i].part_offset)
                        continue;
                (void)world_add(&world, &heap, size_rows[i].part_offset + i * 4 * MIB, BLOCK);
                (void)world_alloc(&heap, BLOCK);
        }
        make_plan(size_rows[_i].n_bytes, PEAK, 0);
        ck_assert_uint_eq(plan.start, WORLD_START + size_rows[_i].part_offset);
}

TEST(a_full_part_is_left)
{
        (void)world_put(&world, GIB, GIB);
        make_plan(32 * MIB, PEAK, 0);
        ck_assert_uint_ge(plan.start, WORLD_START + 2 * GIB);
}

/* More than the request and more than is spare, in one block: behind the heap's own, or else in a run of its own. */
static int plan_least(uint64_t n_bytes, uint64_t n_least_bytes)
{
        struct new_blocks_terms terms = {.n_least_bytes = n_least_bytes};

        return new_blocks_plan(&heap, n_bytes, &terms, &plan);
}

TEST(a_lease_is_so_large_at_least)
{
        add(0, 8 * MIB);
        fill(5 * MIB, 0);
        ck_assert_int_eq(plan_least(4 * MIB, 32 * MIB), 0);
        expect_range(5 * MIB, 40 * MIB);
        expect_one_part(8 * MIB, 32 * MIB);
        carry_out(4 * MIB);
}

TEST(a_lease_of_that_size_needs_room)
{
        add(0, 8 * MIB);
        fill(5 * MIB, 0);
        add_other(16 * MIB, BLOCK);
        ck_assert_int_eq(plan_least(4 * MIB, 32 * MIB), 0);
        ck_assert_uint_ge(plan.start, WORLD_START + base + 18 * MIB);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, 32 * MIB);
        carry_out(4 * MIB);
}

TEST(without_room_a_smaller_lease_must_do)
{
        add(0, 8 * MIB);
        fill(5 * MIB, 0);
        ck_assert_int_eq(plan_least(4 * MIB, 4 * GIB), 0);
        ck_assert_uint_eq(plan.start, WORLD_START + base + 5 * MIB);
        carry_out(4 * MIB);
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

TEST(blocks_grow_with_the_heap, .to = ARRAY_SIZE(rows), .in = &without_start)
{
        uint64_t n_reserved = rows[_i].n_reserved_bytes;

        begin(HEAP_SPLIT, 128 * GIB);
        if (n_reserved)
                (void)world_add(&world, &heap, 128 * GIB - n_reserved, n_reserved);
        ck_assert_int_eq(plan_for(rows[_i].n_bytes, TIB, GIB), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.parts[0].n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.end - plan.start, rows[_i].n_block_bytes);
}

TEST(without_spare_bytes_a_block_is_what_is_asked_for, .in = &without_start)
{
        begin(HEAP_SPLIT, 128 * GIB);
        (void)world_add(&world, &heap, 64 * GIB, 64 * GIB);
        ck_assert_int_eq(plan_for(3 * MIB, TIB, 0), 0);
        ck_assert_uint_eq(plan.n_bytes, 4 * MIB);
}

/* Next to what is there, and yet a block of the whole request. */
TEST(holes_are_not_added_to, .in = &without_start)
{
        begin(HEAP_SPLIT, 128 * GIB);
        (void)world_add(&world, &heap, 128 * GIB - 8 * MIB, 8 * MIB);
        ck_assert_int_eq(plan_for(10 * MIB, TIB, 0), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, WORLD_START + 128 * GIB - 18 * MIB);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 10 * MIB);
        (void)world_add(&world, &heap, 128 * GIB - 18 * MIB, 10 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 10 * MIB), 128 * GIB - 18 * MIB);
}

TEST(what_no_gap_holds_whole_has_no_place, .in = &without_start)
{
        begin(HEAP_SPLIT, 128 * GIB);
        (void)world_add(&world, &heap, 0, 64 * GIB);
        ck_assert_int_eq(plan_for(64 * GIB + 1, TIB, 0), -ENOMEM);
        ck_assert_int_eq(plan_for(UINT64_MAX, TIB, 0), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(plan_for(64 * GIB, TIB, GIB), 0);
        ck_assert_uint_eq(plan.n_bytes, 64 * GIB);
}

TESTS_MAIN("new_blocks", .limit_s = UNLIMITED, .start = begin_most, .stop = end)
