/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and bars of gpumemctl top. */
#include "ctl/top/top_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/suite.h"

static const struct block_row blocks[] = {
        {.pool = 0, .state = LISTED_LEASED, .uid = 7, .pid = 70, .bytes = 4 * MIB, .blocks = 1},
        {.pool = 0, .state = LISTED_IDLE, .uid = 7, .pid = 70, .bytes = 2 * MIB, .blocks = 1},
        {.pool = 1, .state = LISTED_LEASED, .uid = 7, .pid = 71, .bytes = 8 * MIB, .blocks = 1},
        {.pool = 1, .state = LISTED_CACHED, .uid = 7, .pid = 0, .bytes = 64 * MIB, .blocks = 1},
        {.pool = 1, .state = LISTED_LINGERING, .uid = 7, .pid = 72, .bytes = MIB, .blocks = 1},
        {.pool = 0, .state = LISTED_SUM, .uid = LISTING_NOBODY, .bytes = GIB, .blocks = 3},
};

static const struct client_row clients[] = {
        {.pid = 70, .uid = 7, .state = LISTED_READY, .connected = 5, .program = "b"},
        {.pid = 70, .uid = 7, .state = LISTED_LEFT, .connected = 9, .program = "old"},
        {.pid = 71,
         .uid = 7,
         .state = LISTED_READY,
         .connected = 2,
         .program = "a",
         .device_waiting = 2,
         .pinned_waiting = 1},
        {.pid = 73, .uid = 7, .state = LISTED_READY, .connected = 1, .program = "c"},
        {.pid = 0,
         .uid = LISTING_NOBODY,
         .state = LISTED_OTHERS,
         .connected = LISTING_UNTOLD,
         .device_leased = 3 * MIB,
         .pinned_leased = MIB},
};

static struct top_row *rows;
static unsigned n_rows;

static void make(uint32_t pool)
{
        ck_assert_int_eq(top_rows_make(blocks, ARRAY_SIZE(blocks), clients, ARRAY_SIZE(clients),
                                       pool, &rows, &n_rows),
                         0);
}

static void clear(void)
{
        free(steal_ptr(rows));
}

static void expect_pids(const uint32_t *wanted, unsigned n_wanted)
{
        ck_assert_uint_eq(n_rows, n_wanted);
        for (unsigned i = 0; i < n_wanted; i++)
                ck_assert_uint_eq(rows[i].pid, wanted[i]);
}

#define EXPECT_PIDS(...) \
        expect_pids((const uint32_t[]){__VA_ARGS__}, ARRAY_SIZE(((const uint32_t[]){__VA_ARGS__})))

TEST(a_process_is_one_row)
{
        make(PROTO_ALL_POOLS);
        top_rows_sort(rows, n_rows, TOP_PID, false);
        /* Unowned cached blocks are in no row; other tenants' sum is. */
        EXPECT_PIDS(0, 70, 71, 72, 73);
        ck_assert_uint_eq(rows[1].n_leased, 6 * MIB);
        ck_assert_uint_eq(rows[1].n_idle, 2 * MIB);
        ck_assert_uint_eq(rows[1].n_blocks, 2);
        ck_assert_str_eq(rows[1].program, "old");
        ck_assert_uint_eq(rows[1].state, LISTED_LEFT);
        ck_assert_uint_eq(rows[2].n_waiting, 3);
        ck_assert_uint_eq(rows[3].n_lingering, MIB);
        ck_assert_ptr_null(rows[3].program);
        ck_assert_uint_eq(rows[0].n_leased, 4 * MIB);
        ck_assert_uint_eq(rows[0].state, LISTED_OTHERS);
}

TEST(of_one_pool_only_who_has_blocks_there)
{
        make(1);
        top_rows_sort(rows, n_rows, TOP_LEASED, false);
        EXPECT_PIDS(71, 72);
        ck_assert_str_eq(rows[0].program, "a");
}

TEST(the_largest_stand_first)
{
        static const struct {
                enum top_sort sort;
                bool is_reverse;
                uint32_t first, last;
        } orders[] = {
                {TOP_LEASED, false, 71, 73}, {TOP_LEASED, true, 73, 71},
                {TOP_IDLE, false, 70, 73},   {TOP_LINGERING, false, 72, 73},
                {TOP_BLOCKS, true, 73, 0},   {TOP_WAITING, false, 71, 73},
                {TOP_AGE, false, 70, 72},    {TOP_PID, true, 73, 0},
                {TOP_PROGRAM, true, 70, 72},
        };

        make(PROTO_ALL_POOLS);
        for (unsigned i = 0; i < ARRAY_SIZE(orders); i++) {
                top_rows_sort(rows, n_rows, orders[i].sort, orders[i].is_reverse);
                ck_assert_msg(rows[0].pid == orders[i].first, "%u: %u", i, rows[0].pid);
        }
        for (unsigned i = 0; i < TOP_SORTS; i++)
                ck_assert_ptr_nonnull(top_sort_name((enum top_sort)i));
        ck_assert_ptr_null(top_sort_name(TOP_SORTS));
}

TEST(nothing_is_no_rows)
{
        ck_assert_int_eq(top_rows_make(NULL, 0, NULL, 0, PROTO_ALL_POOLS, &rows, &n_rows), 0);
        ck_assert_uint_eq(n_rows, 0);
        top_rows_sort(rows, 0, TOP_PROGRAM, true);
}

static void expect_bar(const struct pool_row *pool, const struct stats_row *stats, unsigned n_cells,
                       uint64_t whole, const char *wanted)
{
        static const char marks[TOP_PARTS] = "|i=~#";
        unsigned cells[TOP_PARTS];
        char text[64] = "";
        size_t n = 0;

        ck_assert_uint_eq(top_bar(pool, stats, n_cells, cells), whole);
        for (unsigned i = 0; i < TOP_PARTS; i++) {
                for (unsigned j = 0; j < cells[i]; j++)
                        text[n++] = marks[i];
        }
        ck_assert_str_eq(text, wanted);
        ck_assert_uint_le(n, n_cells);
}

TEST(a_bar_is_the_whole_device)
{
        const struct pool_row device = {.kind = GPUMEM_DEVICE, .n_capacity_bytes = 100};
        const struct pool_row pinned = {.kind = GPUMEM_PINNED, .n_capacity_bytes = 100};
        struct stats_row stats = {.max = 50,
                                  .leased = 40,
                                  .idle = 10,
                                  .cached = 20,
                                  .lingering = 1,
                                  .device_others = 19};

        expect_bar(&device, &stats, 10, 100, "|||i==~##");
        stats.device_others = PROTO_FIGURE_UNKNOWN;
        expect_bar(&device, &stats, 10, 100, "|||i==~");
        expect_bar(&pinned, &stats, 10, 50, "||||||ii==");
        expect_bar(&device, &stats, 0, 100, "");
}

/* Clients hold it since before the daemon's start; to NVML it is memory of others. */
TEST(what_is_declared_is_in_use_and_not_others)
{
        const struct pool_row device = {.kind = GPUMEM_DEVICE, .n_capacity_bytes = 100};
        struct stats_row stats = {.max = 100, .leased = 10, .declared = 20, .device_others = 50};

        expect_bar(&device, &stats, 10, 100, "|||###");
        stats.device_others = 5;
        expect_bar(&device, &stats, 10, 100, "|||");
        stats.declared = UINT64_MAX;
        expect_bar(&device, &stats, 10, 100, "||||||||||");
}

/* Statistics were read at different times, and may come from a daemon that lies. */
TEST(a_bar_is_never_longer_than_it_may_be)
{
        const struct pool_row device = {.kind = GPUMEM_DEVICE, .n_capacity_bytes = 100};
        const struct pool_row none = {.kind = GPUMEM_DEVICE};
        const struct stats_row stats = {
                .leased = UINT64_MAX, .idle = 7, .cached = UINT64_MAX, .device_others = 500};
        const struct stats_row odd = {.leased = 10, .idle = 90};

        expect_bar(&device, &stats, 10, 100, "||||||||||");
        expect_bar(&device, &odd, 10, 100, "i");
        expect_bar(&none, &odd, 10, 0, "i");
}

TESTS_MAIN("top_rows", .stop = clear)
