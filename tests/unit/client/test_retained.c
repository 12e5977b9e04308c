/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept by itself: which blocks, for how long, and which of them serve a request. The pool has
 * addresses and heaps, and neither a driver nor a daemon. */
#include <string.h>

#include "base/err.h"
#include "client/blocks/retained.h"
#include "client/runtime/service_thread.h"
#include "tests/suite.h"

#define START      (UINT64_C(1) << 44)
#define BLOCK      (2 * MIB)
#define CAPACITY   (1024 * BLOCK)
#define CONNECTION 3
#define NOW_US     UINT64_C(5000000)
#define RECORDS    (2 * RETAINED_BLOCKS_MAX)

static struct pool pool;
static struct service_thread service;
static struct set_heap heap;
static struct leased records[RECORDS];
static unsigned n_records;
static struct leased_list gone;

static void begin(enum heap_runs runs)
{
        memset(&pool, 0, sizeof(pool));
        memset(records, 0, sizeof(records));
        n_records = 0;
        LIST_INIT(&gone);
        service = (struct service_thread){.running = true, .awake = true, .wake_fd = -1};
        pool.service = &service;
        pool.row.n_capacity_bytes = CAPACITY;
        pool.binding.connection = CONNECTION;
        retained_init(&pool.retained);
        heap_set_init(&pool.heap_set);
        ck_assert_int_eq(arena_new(START, 16 * CAPACITY, &pool.heap_set.arena), 0);
        heap_set_open(&pool.heap_set, pool.heap_set.arena, runs);
        heap_set_add(&pool.heap_set, &heap, runs);
}

static void begin_joined(void)
{
        begin(HEAP_JOINED);
}

static void end(void)
{
        struct arena *arena = pool.heap_set.arena;

        heap_check(&heap.heap);
        heap_set_remove(&pool.heap_set, &heap);
        heap_set_close(&pool.heap_set);
        arena_free(arena);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {.name = "retained, split", .stop = end};

static struct leased *put(uint64_t offset, uint64_t n_bytes)
{
        struct leased *leased = &records[n_records++];

        ck_assert_uint_le(n_records, RECORDS);
        leased->block.at = (struct arena_block){START + offset, n_bytes};
        leased->number = n_records;
        leased->connection = CONNECTION;
        ck_assert_int_eq(arena_put(pool.heap_set.arena, &leased->block.at), 0);
        return leased;
}

static struct leased *keep_at(uint64_t offset, uint64_t n_bytes, uint64_t now_us)
{
        struct leased *leased = put(offset, n_bytes);

        ck_assert(retained_add(&pool, leased, now_us));
        return leased;
}

static struct leased *keep(uint64_t n_bytes)
{
        uint64_t offset = n_records ? records[n_records - 1].block.at.start - START +
                                              leased_bytes(&records[n_records - 1])
                                    : 0;

        return keep_at(offset, n_bytes, NOW_US);
}

/* How many are to be unmapped. */
static unsigned drop(enum retained_drop which, uint64_t now_us)
{
        struct leased *leased;
        unsigned n = 0;

        retained_take_out(&pool, which, now_us, &gone);
        LIST_FOREACH (leased, &gone, link) {
                ck_assert_uint_eq(leased->retained_at_us, 0);
                n++;
        }
        LIST_INIT(&gone);
        return n;
}

TEST(so_many_are_kept)
{
        for (unsigned i = 0; i < RETAINED_BLOCKS_MAX + 3; i++)
                (void)keep(BLOCK);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US), 3);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_uint_eq(records[i].retained_at_us, 0);
        ck_assert_uint_ne(records[3].retained_at_us, 0);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US), 0);
}

TEST(so_much_is_kept)
{
        for (unsigned i = 0; i < RETAINED_PART + 1; i++)
                (void)keep(CAPACITY / RETAINED_PART / 2);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US), RETAINED_PART - 1);
        (void)keep(CAPACITY / RETAINED_PART + BLOCK);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US), 3);
        ck_assert(!retained_has_any(&pool));
}

TEST(so_long_it_is_kept)
{
        ck_assert_uint_eq(retained_next_us(&pool), UINT64_MAX);
        (void)keep_at(0, BLOCK, NOW_US);
        (void)keep_at(BLOCK, BLOCK, NOW_US + 10);
        ck_assert_uint_eq(retained_next_us(&pool), NOW_US + RETAINED_US);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US + RETAINED_US - 1), 0);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US + RETAINED_US), 1);
        ck_assert_uint_eq(retained_next_us(&pool), NOW_US + 10 + RETAINED_US);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US + RETAINED_US + 10), 1);
        ck_assert_uint_eq(retained_next_us(&pool), UINT64_MAX);
}

TEST(what_is_wanted_goes_at_once)
{
        (void)keep(BLOCK);
        (void)keep(BLOCK);
        ck_assert_uint_eq(drop(RETAINED_DROP_FREELY, NOW_US), 2);
        ck_assert(!retained_has_any(&pool));
}

/* No thread would unmap it when the daemon asks. */
TEST(without_a_thread_nothing_is_kept)
{
        service.running = false;
        ck_assert(!retained_add(&pool, put(0, BLOCK), NOW_US));
        ck_assert(!retained_has_any(&pool));
}

TEST(a_lost_connection_keeps_nothing)
{
        (void)keep(BLOCK);
        pool.binding.connection = CONNECTION + 1;
        ck_assert(!retained_add(&pool, put(GIB, BLOCK), NOW_US));
        ck_assert_ptr_null(retained_take(&pool, 1, CONNECTION + 1));
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US), 1);
}

TEST(what_is_registered_stays_until_everything_goes, .in = &without_start)
{
        begin(HEAP_SPLIT);
        service.running = false;
        for (unsigned i = 0; i < RECORDS; i++) {
                struct leased *leased = put(2 * i * BLOCK, BLOCK);

                leased->mapping = MAPPING_REGISTERED;
                ck_assert(retained_add(&pool, leased, NOW_US));
        }
        pool.binding.connection = CONNECTION + 1;
        ck_assert_uint_eq(retained_next_us(&pool), UINT64_MAX);
        ck_assert_uint_eq(drop(RETAINED_DROP_EXCESS, NOW_US + 2 * RETAINED_US), 0);
        ck_assert_uint_eq(drop(RETAINED_DROP_FREELY, NOW_US), 0);
        ck_assert_uint_eq(drop(RETAINED_DROP_ALL, NOW_US), RECORDS);
}

TEST(a_block_is_taken_by_its_number)
{
        struct leased *leased;

        (void)keep(BLOCK);
        leased = keep(BLOCK);
        ck_assert_ptr_null(retained_take(&pool, 3, CONNECTION));
        ck_assert_ptr_null(retained_take(&pool, 2, CONNECTION - 1));
        ck_assert_ptr_eq(retained_take(&pool, 2, CONNECTION), leased);
        ck_assert_uint_eq(leased->retained_at_us, 0);
        ck_assert_ptr_null(retained_take(&pool, 2, CONNECTION));
        ck_assert_uint_eq(drop(RETAINED_DROP_ALL, NOW_US), 1);
}

static void expect_plan(uint64_t n_bytes, uint64_t offset, unsigned n_parts)
{
        struct new_blocks new_blocks;

        ck_assert(retained_plan(&pool, &heap, n_bytes, &new_blocks));
        ck_assert_uint_eq(new_blocks.n_parts, n_parts);
        ck_assert_uint_eq(new_blocks.parts[0].start, START + offset);
}

static void expect_no_plan(uint64_t n_bytes)
{
        struct new_blocks new_blocks;

        ck_assert(!retained_plan(&pool, &heap, n_bytes, &new_blocks));
}

TEST(blocks_that_touch_serve_together)
{
        expect_no_plan(BLOCK);
        for (unsigned i = 0; i < 4; i++)
                (void)keep_at(i * BLOCK, BLOCK, NOW_US);
        (void)keep_at(GIB, BLOCK, NOW_US);
        expect_plan(BLOCK, GIB, 1);
        expect_plan(3 * BLOCK, 0, 3);
        expect_plan(4 * BLOCK, 0, 4);
        expect_no_plan(4 * BLOCK + 1);
        /* One in the midst is had, or given up. */
        ck_assert_ptr_nonnull(retained_take(&pool, 2, CONNECTION));
        /* What is had there may grow. */
        expect_plan(2 * BLOCK, 3 * BLOCK, 2);
        expect_no_plan(3 * BLOCK);
}

TEST(runs_that_are_apart_serve_alone, .in = &without_start)
{
        begin(HEAP_SPLIT);
        (void)keep_at(0, 2 * BLOCK, NOW_US);
        (void)keep_at(2 * BLOCK, 2 * BLOCK, NOW_US);
        expect_plan(2 * BLOCK, 2 * BLOCK, 1);
        expect_no_plan(3 * BLOCK);
}

TEST(the_heaps_own_hole_counts)
{
        struct leased *own;

        own = put(0, BLOCK);
        ck_assert_int_eq(heap_add_block(&heap.heap, &own->block), 0);
        (void)keep_at(BLOCK, BLOCK, NOW_US);
        (void)keep_at(2 * BLOCK, BLOCK, NOW_US);
        expect_plan(2 * BLOCK, BLOCK, 1);
        expect_plan(3 * BLOCK, BLOCK, 2);
        expect_no_plan(4 * BLOCK);
        ck_assert_int_eq(heap_remove_block(&heap.heap, &own->block), 0);
}

/* Though another has an open end, or stands beside the heap's own hole. */
TEST(a_block_that_fits_serves_beside_a_large_one, .to = 2)
{
        struct leased *own = put(0, BLOCK);

        if (_i)
                ck_assert_int_eq(heap_add_block(&heap.heap, &own->block), 0);
        (void)keep_at(BLOCK, 64 * BLOCK, NOW_US);
        (void)put(GIB - BLOCK, BLOCK);
        (void)keep_at(GIB, 4 * BLOCK, NOW_US);
        (void)put(GIB + 4 * BLOCK, BLOCK);
        expect_plan(4 * BLOCK, GIB, 1);
        if (_i)
                ck_assert_int_eq(heap_remove_block(&heap.heap, &own->block), 0);
}

/* What a large block has more than is asked for would be held for nothing. */
TEST(a_block_that_is_too_large_does_not_serve)
{
        (void)keep(8 * BLOCK);
        expect_no_plan(BLOCK);
        expect_no_plan(4 * BLOCK);
        expect_plan(7 * BLOCK, 0, 1);
        pool.heap_set.budget.n_peak_bytes = UINT64_C(1024) * 8 * BLOCK;
        expect_plan(BLOCK, 0, 1);
}

TESTS_MAIN("retained", .start = begin_joined, .stop = end)
