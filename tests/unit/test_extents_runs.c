/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are joined where units are added between them, and cut where a hole loses a part. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/suite.h"
#include "tests/unit/extents_runs.h"

/* Both touch, but nobody said so. */
TEST(runs_stay_apart)
{
        struct run_edges low, high;
        struct extents extents;
        uint32_t extent;

        extents_init(&extents);
        low = run_add(&extents, 1000, 10, run_alone);
        high = run_add(&extents, 1010, 10, run_alone);
        runs_check(&extents, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(extents_find_free(&extents, 11), 0);
        extent = run_cut(&extents, 10);
        (void)extents_give(&extents, extent);
        runs_check(&extents, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(extents.n_merges, 0);
        extents_deinit(&extents);
}

TEST(units_join_the_run_below)
{
        struct run_edges low, more;
        struct extents extents;

        extents_init(&extents);
        low = run_add(&extents, 1000, 10, run_alone);
        more = run_add(&extents, 1010, 5, (struct run_edges){.before = low.after});
        ck_assert_uint_eq(more.before, 0);
        run_check(&extents, low.before);
        run_expect(&extents, more.after, EXTENT_EDGE, 1015, 0);
        run_expect(&extents, extents_find_free(&extents, 15), EXTENT_FREE, 1000, 15);
        extents_deinit(&extents);
}

TEST(units_join_the_run_above)
{
        struct run_edges high, more;
        struct extents extents;

        extents_init(&extents);
        high = run_add(&extents, 1000, 10, run_alone);
        more = run_add(&extents, 990, 10, (struct run_edges){.after = high.before});
        ck_assert_uint_eq(more.after, 0);
        run_check(&extents, more.before);
        run_expect(&extents, more.before, EXTENT_EDGE, 990, 0);
        run_expect(&extents, extents_find_free(&extents, 20), EXTENT_FREE, 990, 20);
        extents_deinit(&extents);
}

/* What is taken at the ends stays; the new units are a hole between. */
TEST(units_join_two_runs)
{
        struct run_edges low, high, between;
        struct extents extents;
        uint32_t array[2];

        extents_init(&extents);
        low = run_add(&extents, 1000, 10, run_alone);
        array[0] = run_cut(&extents, 10);
        high = run_add(&extents, 1030, 10, run_alone);
        array[1] = run_cut(&extents, 10);
        between = run_add(&extents, 1010, 20, (struct run_edges){low.after, high.before});
        ck_assert_uint_eq(between.before, 0);
        ck_assert_uint_eq(between.after, 0);
        run_check(&extents, low.before);
        run_expect(&extents, extents_find_free(&extents, 20), EXTENT_FREE, 1010, 20);
        (void)extents_give(&extents, array[1]);
        (void)extents_give(&extents, array[0]);
        run_check(&extents, low.before);
        run_expect(&extents, extents_find_free(&extents, 40), EXTENT_FREE, 1000, 40);
        run_expect(&extents, high.after, EXTENT_EDGE, 1040, 0);
        extents_deinit(&extents);
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

static struct run_edges run_with_ends(struct extents *extents, uint32_t n_low, uint32_t n_high)
{
        struct run_edges edges;
        uint32_t middle = 0;

        extents_init(extents);
        edges = run_add(extents, 1000, 100, run_alone);
        if (n_low)
                (void)run_cut(extents, n_low);
        if (n_high) {
                middle = run_cut(extents, 100 - n_low - n_high);
                (void)run_cut(extents, n_high);
                (void)extents_give(extents, middle);
        }
        return edges;
}

TEST(part_of_a_hole_is_removed, .to = ARRAY_SIZE(remove_rows))
{
        uint32_t start = remove_rows[_i].start, end = start + remove_rows[_i].n_units;
        bool ends_below = start == 1000, ends_above = end == 1100;
        struct run_edges old, made;
        struct extents extents;

        old = run_with_ends(&extents, remove_rows[_i].n_low, remove_rows[_i].n_high);
        made = run_remove(&extents, extents_find_free(&extents, 1), start, remove_rows[_i].n_units);
        ck_assert_int_eq(made.after == 0, ends_below);
        ck_assert_int_eq(made.before == 0, ends_above);
        runs_check(&extents, (uint32_t[]){ends_below ? made.before : old.before,
                                          ends_below ? 0 : made.before, 0});
        if (!ends_below)
                run_expect(&extents, made.after, EXTENT_EDGE, start, 0);
        if (!ends_above)
                run_expect(&extents, made.before, EXTENT_EDGE, end, 0);
        ck_assert_uint_eq(extents.n_units, remove_rows[_i].n_below + remove_rows[_i].n_above);
        if (remove_rows[_i].n_below)
                run_expect(&extents, extents_at(&extents, made.after)->before, EXTENT_FREE,
                           start - remove_rows[_i].n_below, remove_rows[_i].n_below);
        if (remove_rows[_i].n_above)
                run_expect(&extents, extents_at(&extents, made.before)->after, EXTENT_FREE, end,
                           remove_rows[_i].n_above);
        extents_deinit(&extents);
}

TESTS_MAIN("extents_runs", .limit_s = UNLIMITED)
