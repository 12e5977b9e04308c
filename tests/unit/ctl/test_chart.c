/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's bytes as spans and cells. */
#include "ctl/output/chart.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/suite.h"

static const struct pool_row pool = {.id = 1};
static struct chart chart;

static void clear(void)
{
        chart_deinit(&chart);
}

static void make(const struct block_row *blocks, uint32_t n_blocks, uint64_t max)
{
        static const struct client_row clients[] = {
                {.pid = 70, .uid = 8, .program = "another user's"},
                {.pid = 70, .uid = 7, .program = "python3", .container = "box"},
        };
        const struct stats_row stats = {.max = max};

        ck_assert_int_eq(
                chart_make(&pool, &stats, blocks, n_blocks, clients, ARRAY_SIZE(clients), &chart),
                0);
}

static struct block_row block(enum listed_block state, uint32_t uid, uint32_t pid, uint64_t n_mib)
{
        return (struct block_row){.pool = 1,
                                  .state = (uint32_t)state,
                                  .uid = uid,
                                  .pid = pid,
                                  .bytes = n_mib * MIB,
                                  .blocks = 1};
}

/* As text: each cell's mark. */
static void expect_cells(unsigned n_cells, const char *wanted)
{
        unsigned cells[64];
        char text[65] = "";
        unsigned n = chart_cells(&chart, n_cells, cells);

        for (unsigned i = 0; i < n; i++)
                text[i] = cells[i] < chart.n_spans ? chart.spans[cells[i]].mark : CHART_FREE;
        ck_assert_str_eq(text, wanted);
}

static void expect_marks(const char *wanted)
{
        char text[256] = "";

        for (unsigned i = 0; i < chart.n_spans; i++)
                text[i] = chart.spans[i].mark;
        ck_assert_str_eq(text, wanted);
}

TEST(spans_stand_by_state_and_owner)
{
        const struct block_row blocks[] = {
                block(LISTED_CACHED, 7, 0, 8),           block(LISTED_LEASED, 7, 70, 4),
                block(LISTED_LINGERING, 7, 71, 4),       block(LISTED_IDLE, 7, 70, 4),
                block(LISTED_LEASED, 9, 90, 12),         block(LISTED_LEASED, 7, 70, 4),
                block(LISTED_SUM, LISTING_NOBODY, 0, 4),
        };

        make(blocks, ARRAY_SIZE(blocks), 64 * MIB);
        /* 12 MiB each, leased and idle; equal ones are sorted by uid. */
        expect_marks("ABa=~?");
        ck_assert_uint_eq(chart.spans[0].pid, 70);
        ck_assert_uint_eq(chart.spans[0].n_bytes, 8 * MIB);
        ck_assert_uint_eq(chart.spans[0].n_blocks, 2);
        ck_assert_str_eq(chart.spans[0].program, "python3");
        ck_assert_str_eq(chart.spans[0].container, "box");
        ck_assert_ptr_null(chart.spans[1].program);
        ck_assert_uint_eq(chart.n_free_bytes, 24 * MIB);
        expect_cells(16, "AABBBa==~?......");
}

TEST(what_is_nobody_s_yet_is_said_to_be)
{
        const struct block_row warm = block(LISTED_CACHED, LISTING_NOBODY, 0, 8);
        char text[SPAN_TEXT_MAX];

        make(&warm, 1, 64 * MIB);
        ck_assert_uint_eq(chart.n_spans, 1);
        span_describe(&chart.spans[0], text);
        ck_assert_str_eq(text, "cached, without an owner");
}

TEST(what_is_not_leased_is_with_its_process)
{
        const struct block_row blocks[] = {block(LISTED_LEASED, 9, 90, 4),
                                           block(LISTED_IDLE, 9, 90, 4)};
        char text[SPAN_TEXT_MAX];

        make(blocks, ARRAY_SIZE(blocks), 64 * MIB);
        span_describe(&chart.spans[0], text);
        ck_assert_str_eq(text, "leased by process 90 of uid 9");
        span_describe(&chart.spans[1], text);
        ck_assert_str_eq(text, "idle with process 90 of uid 9");
}

TEST(other_pools_are_not_in_it)
{
        struct block_row other = block(LISTED_LEASED, 7, 70, 4);

        other.pool = 2;
        make(&other, 1, 64 * MIB);
        ck_assert_uint_eq(chart.n_spans, 0);
        expect_cells(4, "....");
}

TEST(those_with_most_have_letters_of_their_own)
{
        struct block_row blocks[30];
        struct span *last;

        for (uint32_t i = 0; i < 30; i++)
                blocks[i] = block(LISTED_LEASED, 7, 100 + i, 1 + i);
        make(blocks, ARRAY_SIZE(blocks), GIB);
        expect_marks("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        ck_assert_uint_eq(chart.spans[0].pid, 129);
        last = &chart.spans[25];
        ck_assert_uint_eq(last->n_owners, 5);
        ck_assert_uint_eq(last->pid, 0);
        ck_assert_uint_eq(last->n_bytes, (1 + 2 + 3 + 4 + 5) * MIB);
}

/* Reserved memory is visible, though most of a cell may be free. */
TEST(a_cell_shows_what_has_most_of_what_is_reserved)
{
        const struct block_row blocks[] = {block(LISTED_LEASED, 7, 70, 3),
                                           block(LISTED_CACHED, 7, 0, 2)};

        make(blocks, ARRAY_SIZE(blocks), 64 * MIB);
        expect_cells(4, "A...");
        expect_cells(16, "A=..............");
        /* 65 bytes in 64 cells make 33 cells of two bytes. */
        chart.n_bytes = 65;
        ck_assert_uint_eq(chart_cell_bytes(&chart, 64), 2);
        chart.n_spans = 0;
        expect_cells(64, ".................................");
}

/* Of two equal shares, the first one is shown. */
TEST(a_cell_that_two_share_shows_the_first)
{
        const struct block_row blocks[] = {block(LISTED_CACHED, 7, 0, 2),
                                           block(LISTED_LEASED, 7, 70, 2)};

        make(blocks, ARRAY_SIZE(blocks), 64 * MIB);
        expect_cells(4, "A...");
}

TEST(a_limit_below_what_is_there_is_no_end)
{
        const struct block_row some = block(LISTED_LEASED, 7, 70, 8);

        make(&some, 1, 2 * MIB);
        ck_assert_uint_eq(chart.n_bytes, 8 * MIB);
        ck_assert_uint_eq(chart.n_free_bytes, 0);
        expect_cells(4, "AAAA");
}

TEST(an_empty_pool_has_no_cells)
{
        make(NULL, 0, 0);
        expect_cells(4, "");
}

/* An impossible list is drawn without an error. */
TEST(absurd_sizes_do_no_harm)
{
        struct block_row blocks[3] = {block(LISTED_LEASED, 7, 70, 1), block(LISTED_IDLE, 7, 70, 1),
                                      block(LISTED_CACHED, 7, 70, 1)};

        for (unsigned i = 0; i < 3; i++)
                blocks[i].bytes = UINT64_MAX;
        blocks[2].state = 4711;
        make(blocks, ARRAY_SIZE(blocks), 64 * MIB);
        expect_marks("Aa?");
        expect_cells(4, "AAAA");
}

TESTS_MAIN("chart", .stop = clear)
