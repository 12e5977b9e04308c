/* Pieces of a run. Runs that are joined and cut are in test_holes_runs.c, how well a hole fits is in
 * test_holes_fit.c. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/holes_runs.h"

TEST(nothing_is_found_in_nothing)
{
        struct holes holes;

        holes_init(&holes);
        ck_assert_uint_eq(holes_find(&holes, 1), 0);
        ck_assert_uint_eq(holes_find(&holes, UINT32_MAX), 0);
        ck_assert_uint_eq(holes_largest(&holes), 0);
        ck_assert_uint_eq(holes_next_large(&holes, 0, 0), 0);
        ck_assert_uint_eq(holes_next_large(&holes, UINT32_MAX, 0), 0);
        run_check(&holes, 0);
        holes_deinit(&holes);
}

TEST(a_run_is_one_hole_until_it_is_removed)
{
        struct run_edges edges;
        struct holes holes;
        uint32_t hole;

        holes_init(&holes);
        edges = run_add(&holes, 64, 100, run_alone);
        run_check(&holes, edges.before);
        run_expect(&holes, edges.before, PIECE_EDGE, 64, 0);
        run_expect(&holes, edges.after, PIECE_EDGE, 164, 0);
        hole = holes_find(&holes, 1);
        run_expect(&holes, hole, PIECE_HOLE, 64, 100);
        ck_assert_uint_eq(holes_find(&holes, 100), hole);
        ck_assert_uint_eq(holes_find(&holes, 101), 0);
        ck_assert_uint_eq(holes_largest(&holes), 100);
        edges = run_remove(&holes, hole, 64, 100);
        ck_assert_uint_eq(edges.before, 0);
        ck_assert_uint_eq(edges.after, 0);
        ck_assert_uint_eq(holes_find(&holes, 1), 0);
        run_check(&holes, 0);
        holes_deinit(&holes);
}

TEST(units_reach_to_the_last)
{
        struct run_edges edges;
        struct holes holes;
        uint32_t piece;

        holes_init(&holes);
        edges = run_add(&holes, 0, UINT32_MAX - 1, run_alone);
        run_check(&holes, edges.before);
        ck_assert_uint_eq(holes_largest(&holes), UINT32_MAX - 1);
        piece = run_cut(&holes, UINT32_MAX - 1);
        run_check(&holes, edges.before);
        ck_assert_uint_eq(holes.n_holes, 0);
        ck_assert_uint_eq(holes_give(&holes, piece), piece);
        ck_assert_uint_eq(holes_find(&holes, UINT32_MAX - 1), piece);
        run_check(&holes, edges.before);
        holes_deinit(&holes);
}

TEST(a_cut_leaves_the_rest)
{
        struct run_edges edges;
        struct holes holes;
        uint32_t first, second;

        holes_init(&holes);
        edges = run_add(&holes, 1000, 10, run_alone);
        first = run_cut(&holes, 4);
        run_check(&holes, edges.before);
        run_expect(&holes, first, PIECE_TAKEN, 1000, 4);
        run_expect(&holes, holes_at(&holes, first)->after, PIECE_HOLE, 1004, 6);
        ck_assert_uint_eq(holes.n_splits, 1);
        second = run_cut(&holes, 6);
        run_check(&holes, edges.before);
        run_expect(&holes, second, PIECE_TAKEN, 1004, 6);
        ck_assert_uint_eq(holes_at(&holes, second)->after, edges.after);
        ck_assert_uint_eq(holes.n_holes, 0);
        ck_assert_uint_eq(holes.n_units, 0);
        ck_assert_uint_eq(holes.n_splits, 1);
        ck_assert_uint_eq(holes_find(&holes, 1), 0);
        holes_deinit(&holes);
}

/* Three taken pieces in a row, and room behind them. */
struct row {
        struct holes holes;
        struct run_edges edges;
        uint32_t a, b, c;
};

static void row_init(struct row *row)
{
        holes_init(&row->holes);
        row->edges = run_add(&row->holes, 1000, 100, run_alone);
        row->a = run_cut(&row->holes, 10);
        row->b = run_cut(&row->holes, 20);
        row->c = run_cut(&row->holes, 30);
        run_check(&row->holes, row->edges.before);
}

static const struct {
        const char *given; /* in this order */
        uint64_t n_holes, n_merges;
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
        uint32_t hole = 0;

        row_init(&row);
        for (const char *name = merge_rows[_i].given; *name; name++) {
                hole = holes_give(&row.holes, *name == 'a' ? row.a : *name == 'b' ? row.b : row.c);
                run_check(&row.holes, row.edges.before);
        }
        run_expect(&row.holes, hole, PIECE_HOLE, merge_rows[_i].start, merge_rows[_i].n_units);
        ck_assert_uint_eq(row.holes.n_holes, merge_rows[_i].n_holes);
        ck_assert_uint_eq(row.holes.n_merges, merge_rows[_i].n_merges);
        holes_deinit(&row.holes);
}

/* 2^31 are the most that double. */
TEST(the_largest_array_grows_no_more)
{
        struct holes full = {.n_pieces = UINT32_C(1) << 31, .n_touched = UINT32_C(1) << 31};

        ck_assert_int_eq(holes_reserve(&full, 1), -ENOMEM);
        ck_assert_uint_eq(full.n_pieces, UINT32_C(1) << 31);
}

TEST(what_was_reserved_is_there)
{
        uint32_t edges[41] = {0};
        struct holes holes;
        uint32_t n_pieces;

        holes_init(&holes);
        ck_assert_int_eq(holes_reserve(&holes, 0), 0);
        ck_assert_ptr_null(holes.pieces);
        ck_assert_int_eq(holes_reserve(&holes, 120), 0);
        n_pieces = holes.n_pieces;
        for (uint32_t i = 0; i < 40; i++)
                edges[i] = holes_add(&holes, 1000 * i, 10, run_alone).before;
        runs_check(&holes, edges);
        for (uint32_t i = 0; i < 40; i++) {
                uint32_t hole = holes_find(&holes, 10);

                (void)holes_remove(&holes, hole, holes_at(&holes, hole)->start, 10);
        }
        run_check(&holes, 0);
        /* Those that are unused again are the next ones. */
        ck_assert_int_eq(holes_reserve(&holes, 120), 0);
        ck_assert_uint_eq(holes.n_pieces, n_pieces);
        holes_deinit(&holes);
        ck_assert_ptr_null(holes.pieces);
        holes_deinit(&holes);
}

TESTS_MAIN("holes", .limit_s = UNLIMITED)
