/* Runs that are joined where units are added between them, and cut where a hole loses a part. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/holes_runs.h"

/* Both touch, but nobody said so. */
TEST(runs_stay_apart)
{
        struct run_edges low, high;
        struct holes holes;
        uint32_t piece;

        holes_init(&holes);
        low = run_add(&holes, 1000, 10, run_alone);
        high = run_add(&holes, 1010, 10, run_alone);
        runs_check(&holes, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(holes_find(&holes, 11), 0);
        piece = run_cut(&holes, 10);
        (void)holes_give(&holes, piece);
        runs_check(&holes, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(holes.n_merges, 0);
        holes_deinit(&holes);
}

TEST(units_join_the_run_below)
{
        struct run_edges low, more;
        struct holes holes;

        holes_init(&holes);
        low = run_add(&holes, 1000, 10, run_alone);
        more = run_add(&holes, 1010, 5, (struct run_edges){.before = low.after});
        ck_assert_uint_eq(more.before, 0);
        run_check(&holes, low.before);
        run_expect(&holes, more.after, PIECE_EDGE, 1015, 0);
        run_expect(&holes, holes_find(&holes, 15), PIECE_HOLE, 1000, 15);
        holes_deinit(&holes);
}

TEST(units_join_the_run_above)
{
        struct run_edges high, more;
        struct holes holes;

        holes_init(&holes);
        high = run_add(&holes, 1000, 10, run_alone);
        more = run_add(&holes, 990, 10, (struct run_edges){.after = high.before});
        ck_assert_uint_eq(more.after, 0);
        run_check(&holes, more.before);
        run_expect(&holes, more.before, PIECE_EDGE, 990, 0);
        run_expect(&holes, holes_find(&holes, 20), PIECE_HOLE, 990, 20);
        holes_deinit(&holes);
}

/* What is taken at the ends stays; the new units are a hole between. */
TEST(units_join_two_runs)
{
        struct run_edges low, high, between;
        struct holes holes;
        uint32_t pieces[2];

        holes_init(&holes);
        low = run_add(&holes, 1000, 10, run_alone);
        pieces[0] = run_cut(&holes, 10);
        high = run_add(&holes, 1030, 10, run_alone);
        pieces[1] = run_cut(&holes, 10);
        between = run_add(&holes, 1010, 20, (struct run_edges){low.after, high.before});
        ck_assert_uint_eq(between.before, 0);
        ck_assert_uint_eq(between.after, 0);
        run_check(&holes, low.before);
        run_expect(&holes, holes_find(&holes, 20), PIECE_HOLE, 1010, 20);
        (void)holes_give(&holes, pieces[1]);
        (void)holes_give(&holes, pieces[0]);
        run_check(&holes, low.before);
        run_expect(&holes, holes_find(&holes, 40), PIECE_HOLE, 1000, 40);
        run_expect(&holes, high.after, PIECE_EDGE, 1040, 0);
        holes_deinit(&holes);
}

/* A run of 100 units from 1000 on: `n_low` are taken at its lower end and `n_high` at its upper end,
 * and of the hole between some go. */
static const struct {
        uint32_t n_low, n_high, start, n_units;
        uint32_t n_below, n_above; /* holes that stay */
} remove_rows[] = {
        {0, 0, 1000, 100, 0, 0},   {0, 0, 1000, 40, 0, 60},    {0, 0, 1060, 40, 60, 0},
        {0, 0, 1030, 40, 30, 30},  {10, 0, 1010, 90, 0, 0},    {10, 0, 1020, 80, 10, 0},
        {10, 0, 1010, 40, 0, 50},  {0, 10, 1000, 90, 0, 0},    {0, 10, 1050, 40, 50, 0},
        {0, 10, 1000, 40, 0, 50},  {10, 10, 1010, 80, 0, 0},   {10, 10, 1010, 40, 0, 40},
        {10, 10, 1050, 40, 40, 0}, {10, 10, 1040, 20, 30, 30},
};

static struct run_edges run_with_ends(struct holes *holes, uint32_t n_low, uint32_t n_high)
{
        struct run_edges edges;
        uint32_t middle = 0;

        holes_init(holes);
        edges = run_add(holes, 1000, 100, run_alone);
        if (n_low)
                (void)run_cut(holes, n_low);
        if (n_high) {
                middle = run_cut(holes, 100 - n_low - n_high);
                (void)run_cut(holes, n_high);
                (void)holes_give(holes, middle);
        }
        return edges;
}

TEST(part_of_a_hole_is_removed, .to = ARRAY_SIZE(remove_rows))
{
        uint32_t start = remove_rows[_i].start, end = start + remove_rows[_i].n_units;
        bool ends_below = start == 1000, ends_above = end == 1100;
        struct run_edges old, made;
        struct holes holes;

        old = run_with_ends(&holes, remove_rows[_i].n_low, remove_rows[_i].n_high);
        made = run_remove(&holes, holes_find(&holes, 1), start, remove_rows[_i].n_units);
        ck_assert_int_eq(made.after == 0, ends_below);
        ck_assert_int_eq(made.before == 0, ends_above);
        runs_check(&holes, (uint32_t[]){ends_below ? made.before : old.before,
                                        ends_below ? 0 : made.before, 0});
        if (!ends_below)
                run_expect(&holes, made.after, PIECE_EDGE, start, 0);
        if (!ends_above)
                run_expect(&holes, made.before, PIECE_EDGE, end, 0);
        ck_assert_uint_eq(holes.n_units, remove_rows[_i].n_below + remove_rows[_i].n_above);
        if (remove_rows[_i].n_below)
                run_expect(&holes, holes_at(&holes, made.after)->before, PIECE_HOLE,
                           start - remove_rows[_i].n_below, remove_rows[_i].n_below);
        if (remove_rows[_i].n_above)
                run_expect(&holes, holes_at(&holes, made.before)->after, PIECE_HOLE, end,
                           remove_rows[_i].n_above);
        holes_deinit(&holes);
}

TESTS_MAIN("holes_runs", .limit_s = UNLIMITED)
