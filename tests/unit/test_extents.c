/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of a run. Runs that are joined and cut are in test_holes_runs.c, how well a hole fits is in
 * test_holes_fit.c. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/extents_runs.h"

TEST(nothing_is_found_in_nothing)
{
        struct extents extents;

        extents_init(&extents);
        ck_assert_uint_eq(extents_find_free(&extents, 1), 0);
        ck_assert_uint_eq(extents_find_free(&extents, UINT32_MAX), 0);
        ck_assert_uint_eq(extents_largest_free(&extents), 0);
        ck_assert_uint_eq(extents_next_large_free(&extents, 0, 0), 0);
        ck_assert_uint_eq(extents_next_large_free(&extents, UINT32_MAX, 0), 0);
        run_check(&extents, 0);
        extents_deinit(&extents);
}

TEST(a_run_is_one_hole_until_it_is_removed)
{
        struct run_edges edges;
        struct extents extents;
        uint32_t free_extent;

        extents_init(&extents);
        edges = run_add(&extents, 64, 100, run_alone);
        run_check(&extents, edges.before);
        run_expect(&extents, edges.before, EXTENT_EDGE, 64, 0);
        run_expect(&extents, edges.after, EXTENT_EDGE, 164, 0);
        free_extent = extents_find_free(&extents, 1);
        run_expect(&extents, free_extent, EXTENT_FREE, 64, 100);
        ck_assert_uint_eq(extents_find_free(&extents, 100), free_extent);
        ck_assert_uint_eq(extents_find_free(&extents, 101), 0);
        ck_assert_uint_eq(extents_largest_free(&extents), 100);
        edges = run_remove(&extents, free_extent, 64, 100);
        ck_assert_uint_eq(edges.before, 0);
        ck_assert_uint_eq(edges.after, 0);
        ck_assert_uint_eq(extents_find_free(&extents, 1), 0);
        run_check(&extents, 0);
        extents_deinit(&extents);
}

TEST(units_reach_to_the_last)
{
        struct run_edges edges;
        struct extents extents;
        uint32_t extent;

        extents_init(&extents);
        edges = run_add(&extents, 0, UINT32_MAX - 1, run_alone);
        run_check(&extents, edges.before);
        ck_assert_uint_eq(extents_largest_free(&extents), UINT32_MAX - 1);
        extent = run_cut(&extents, UINT32_MAX - 1);
        run_check(&extents, edges.before);
        ck_assert_uint_eq(extents.n_free, 0);
        ck_assert_uint_eq(extents_give(&extents, extent), extent);
        ck_assert_uint_eq(extents_find_free(&extents, UINT32_MAX - 1), extent);
        run_check(&extents, edges.before);
        extents_deinit(&extents);
}

TEST(a_cut_leaves_the_rest)
{
        struct run_edges edges;
        struct extents extents;
        uint32_t first, second;

        extents_init(&extents);
        edges = run_add(&extents, 1000, 10, run_alone);
        first = run_cut(&extents, 4);
        run_check(&extents, edges.before);
        run_expect(&extents, first, EXTENT_TAKEN, 1000, 4);
        run_expect(&extents, extents_at(&extents, first)->after, EXTENT_FREE, 1004, 6);
        ck_assert_uint_eq(extents.n_splits, 1);
        second = run_cut(&extents, 6);
        run_check(&extents, edges.before);
        run_expect(&extents, second, EXTENT_TAKEN, 1004, 6);
        ck_assert_uint_eq(extents_at(&extents, second)->after, edges.after);
        ck_assert_uint_eq(extents.n_free, 0);
        ck_assert_uint_eq(extents.n_units, 0);
        ck_assert_uint_eq(extents.n_splits, 1);
        ck_assert_uint_eq(extents_find_free(&extents, 1), 0);
        extents_deinit(&extents);
}

/* Three taken extents in a row, and room behind them. */
struct row {
        struct extents extents;
        struct run_edges edges;
        uint32_t a, b, c;
};

static void row_init(struct row *row)
{
        extents_init(&row->extents);
        row->edges = run_add(&row->extents, 1000, 100, run_alone);
        row->a = run_cut(&row->extents, 10);
        row->b = run_cut(&row->extents, 20);
        row->c = run_cut(&row->extents, 30);
        run_check(&row->extents, row->edges.before);
}

static const struct {
        const char *given; /* in this order */
        uint64_t n_free, n_merges;
        uint32_t start, n_units; /* of the last one's hole */
} merge_rows[] = {
        {"b", 2, 0, 1010, 20},  {"a", 2, 0, 1000, 10},    {"ab", 2, 1, 1000, 30},
        {"ba", 2, 1, 1000, 30}, {"c", 1, 1, 1030, 70},    {"bc", 1, 2, 1010, 90},
        {"cb", 1, 2, 1010, 90}, {"acb", 1, 3, 1000, 100}, {"abc", 1, 3, 1000, 100},
        {"ac", 2, 1, 1030, 70},
};

TEST(holes_merge_with_those_that_they_touch, .to = ARRAY_SIZE(merge_rows))
{
        struct row row;
        uint32_t free_extent = 0;

        row_init(&row);
        for (const char *name = merge_rows[_i].given; *name; name++) {
                free_extent = extents_give(&row.extents, *name == 'a'   ? row.a
                                                         : *name == 'b' ? row.b
                                                                        : row.c);
                run_check(&row.extents, row.edges.before);
        }
        run_expect(&row.extents, free_extent, EXTENT_FREE, merge_rows[_i].start,
                   merge_rows[_i].n_units);
        ck_assert_uint_eq(row.extents.n_free, merge_rows[_i].n_free);
        ck_assert_uint_eq(row.extents.n_merges, merge_rows[_i].n_merges);
        extents_deinit(&row.extents);
}

/* 2^31 are the most that double. */
TEST(the_largest_array_grows_no_more)
{
        struct extents full = {.n_extents = UINT32_C(1) << 31, .n_touched = UINT32_C(1) << 31};

        ck_assert_int_eq(extents_reserve(&full, 1), -ENOMEM);
        ck_assert_uint_eq(full.n_extents, UINT32_C(1) << 31);
}

TEST(what_was_reserved_is_there)
{
        uint32_t edges[41] = {0};
        struct extents extents;
        uint32_t n_extents;

        extents_init(&extents);
        ck_assert_int_eq(extents_reserve(&extents, 0), 0);
        ck_assert_ptr_null(extents.extents);
        ck_assert_int_eq(extents_reserve(&extents, 120), 0);
        n_extents = extents.n_extents;
        for (uint32_t i = 0; i < 40; i++)
                edges[i] = extents_add(&extents, 1000 * i, 10, run_alone).before;
        runs_check(&extents, edges);
        for (uint32_t i = 0; i < 40; i++) {
                uint32_t free_extent = extents_find_free(&extents, 10);

                (void)extents_remove(&extents, free_extent,
                                     extents_at(&extents, free_extent)->start, 10);
        }
        run_check(&extents, 0);
        /* Those that are unused again are the next ones. */
        ck_assert_int_eq(extents_reserve(&extents, 120), 0);
        ck_assert_uint_eq(extents.n_extents, n_extents);
        extents_deinit(&extents);
        ck_assert_ptr_null(extents.extents);
        extents_deinit(&extents);
}

TESTS_MAIN("extents", .limit_s = UNLIMITED)
