/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of a run, and runs that are joined where units are added between them, and cut where a free extent loses a
 * part; and which free extent is found for a request: one of exactly its size, or else the lowest of the few that are
 * looked at, and always one if there is one. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/heap/extents_runs.h"

#define N_RUNS_MAX 64

static struct extents extents;

static void begin(void)
{
        extents_init(&extents);
}

static void end(void)
{
        extents_deinit(&extents);
}

TEST(nothing_is_found_in_nothing)
{
        ck_assert_uint_eq(extents_find_free(&extents, 1), 0);
        ck_assert_uint_eq(extents_find_free(&extents, UINT32_MAX), 0);
        ck_assert_uint_eq(extents_largest_free(&extents), 0);
        ck_assert_uint_eq(extents_next_large_free(&extents, 0, 0), 0);
        ck_assert_uint_eq(extents_next_large_free(&extents, UINT32_MAX, 0), 0);
        run_check(&extents, 0);
}

TEST(a_run_is_one_hole_until_it_is_removed)
{
        struct run_edges edges;
        uint32_t free_extent;

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
}

TEST(units_reach_to_the_last)
{
        struct run_edges edges;
        uint32_t extent;

        edges = run_add(&extents, 0, UINT32_MAX - 1, run_alone);
        run_check(&extents, edges.before);
        ck_assert_uint_eq(extents_largest_free(&extents), UINT32_MAX - 1);
        extent = run_cut(&extents, UINT32_MAX - 1);
        run_check(&extents, edges.before);
        ck_assert_uint_eq(extents.n_free, 0);
        ck_assert_uint_eq(extents_give(&extents, extent), extent);
        ck_assert_uint_eq(extents_find_free(&extents, UINT32_MAX - 1), extent);
        run_check(&extents, edges.before);
}

TEST(a_cut_leaves_the_rest)
{
        struct run_edges edges;
        uint32_t first, second;

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
}

/* Three taken extents in a row, and room behind them. */
struct row {
        struct run_edges edges;
        uint32_t a, b, c;
};

static void row_init(struct row *row)
{
        row->edges = run_add(&extents, 1000, 100, run_alone);
        row->a = run_cut(&extents, 10);
        row->b = run_cut(&extents, 20);
        row->c = run_cut(&extents, 30);
        run_check(&extents, row->edges.before);
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
                free_extent = extents_give(&extents, *name == 'a'   ? row.a
                                                     : *name == 'b' ? row.b
                                                                    : row.c);
                run_check(&extents, row.edges.before);
        }
        run_expect(&extents, free_extent, EXTENT_FREE, merge_rows[_i].start,
                   merge_rows[_i].n_units);
        ck_assert_uint_eq(extents.n_free, merge_rows[_i].n_free);
        ck_assert_uint_eq(extents.n_merges, merge_rows[_i].n_merges);
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
        uint32_t n_extents;

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
}

/* Both touch, but no caller said so. */
TEST(runs_stay_apart)
{
        struct run_edges low, high;
        uint32_t extent;

        low = run_add(&extents, 1000, 10, run_alone);
        high = run_add(&extents, 1010, 10, run_alone);
        runs_check(&extents, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(extents_find_free(&extents, 11), 0);
        extent = run_cut(&extents, 10);
        (void)extents_give(&extents, extent);
        runs_check(&extents, (uint32_t[]){low.before, high.before, 0});
        ck_assert_uint_eq(extents.n_merges, 0);
}

TEST(units_join_the_run_below)
{
        struct run_edges low, more;

        low = run_add(&extents, 1000, 10, run_alone);
        more = run_add(&extents, 1010, 5, (struct run_edges){.before = low.after});
        ck_assert_uint_eq(more.before, 0);
        run_check(&extents, low.before);
        run_expect(&extents, more.after, EXTENT_EDGE, 1015, 0);
        run_expect(&extents, extents_find_free(&extents, 15), EXTENT_FREE, 1000, 15);
}

TEST(units_join_the_run_above)
{
        struct run_edges high, more;

        high = run_add(&extents, 1000, 10, run_alone);
        more = run_add(&extents, 990, 10, (struct run_edges){.after = high.before});
        ck_assert_uint_eq(more.after, 0);
        run_check(&extents, more.before);
        run_expect(&extents, more.before, EXTENT_EDGE, 990, 0);
        run_expect(&extents, extents_find_free(&extents, 20), EXTENT_FREE, 990, 20);
}

/* What is taken at the ends stays; the new units are a hole between. */
TEST(units_join_two_runs)
{
        struct run_edges low, high, between;
        uint32_t array[2];

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

static struct run_edges run_with_ends(uint32_t n_low, uint32_t n_high)
{
        struct run_edges edges;
        uint32_t middle = 0;

        edges = run_add(&extents, 1000, 100, run_alone);
        if (n_low)
                (void)run_cut(&extents, n_low);
        if (n_high) {
                middle = run_cut(&extents, 100 - n_low - n_high);
                (void)run_cut(&extents, n_high);
                (void)extents_give(&extents, middle);
        }
        return edges;
}

TEST(part_of_a_hole_is_removed, .to = ARRAY_SIZE(remove_rows))
{
        uint32_t start = remove_rows[_i].start, end = start + remove_rows[_i].n_units;
        bool ends_below = start == 1000, ends_above = end == 1100;
        struct run_edges old, made;

        old = run_with_ends(remove_rows[_i].n_low, remove_rows[_i].n_high);
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
}

/* A run of that many units of its own, which is one hole; the runs do not touch. */
static void add_free(uint32_t n_units)
{
        (void)run_add(&extents, (uint32_t)extents.n_free * 10000, n_units, run_alone);
}

static uint32_t n_found(uint32_t n_units)
{
        uint32_t free_extent = extents_find_free(&extents, n_units);

        return free_extent ? extents_at(&extents, free_extent)->n_units : 0;
}

static uint32_t start_found(uint32_t n_units)
{
        uint32_t free_extent = extents_find_free(&extents, n_units);

        ck_assert_uint_ne(free_extent, 0);
        return extents_at(&extents, free_extent)->start;
}

TEST(one_of_exactly_the_size_goes_before_lower_ones)
{
        add_free(300);
        add_free(128);
        ck_assert_uint_eq(n_found(128), 128);
        ck_assert_uint_eq(n_found(127), 300);
        ck_assert_uint_eq(n_found(129), 300);
        ck_assert_uint_eq(n_found(301), 0);
        ck_assert_uint_eq(extents_largest_free(&extents), 300);
}

/* Whatever its size, also in the request's own class, which is that of 128 to 135. */
TEST(the_lowest_goes_before_those_that_fit_better)
{
        static const uint32_t n_units[] = {135, 5000, 300, 136};

        for (unsigned i = 0; i < ARRAY_SIZE(n_units); i++)
                add_free(n_units[i]);
        ck_assert_uint_eq(n_found(128), 135);
        ck_assert_uint_eq(n_found(137), 5000);
        (void)run_remove(&extents, extents_find_free(&extents, 128), 0, 135);
        ck_assert_uint_eq(n_found(128), 5000);
}

/* In either order of coming. */
TEST(the_lowest_of_a_class_is_its_first, .to = 2)
{
        uint32_t first = _i ? 30000 : 10000, second = 40000 - first;

        (void)run_add(&extents, first, 10, run_alone);
        (void)run_add(&extents, second, 10, run_alone);
        ck_assert_uint_eq(start_found(10), 10000);
        (void)run_remove(&extents, extents_find_free(&extents, 10), 10000, 10);
        ck_assert_uint_eq(start_found(10), 30000);
}

/* A hole that grows downwards, or loses its beginning, stays where it is in its class: what is known of
 * its start follows. */
TEST(a_hole_that_moves_is_found_where_it_is)
{
        uint32_t free_extent, taken;

        (void)run_add(&extents, 0, 10000, run_alone);
        (void)run_add(&extents, 20000, 300, run_alone);
        free_extent = extents_find_free(&extents, 10000);
        taken = extents_take(&extents, free_extent, 100);
        ck_assert_uint_eq(start_found(200), 100);
        (void)extents_give(&extents, taken);
        ck_assert_uint_eq(start_found(200), 0);
}

/* One hole in each of the classes above that of 15, the lowest one in the last of them. */
static void add_steps(unsigned n_classes, uint32_t n_last_units)
{
        add_free(n_last_units);
        for (unsigned i = 0; i < n_classes; i++)
                add_free((16 + i % 16) << (i / 16));
}

/* The lowest is so many classes above that it is seen, or just not. */
TEST(a_search_looks_at_near_classes, .to = 2)
{
        unsigned n_between = EXTENTS_LOOK - 1 + (unsigned)_i;

        add_steps(n_between, (16 + n_between % 16) << (n_between / 16));
        ck_assert_uint_eq(start_found(15), _i ? 10000 : 0);
}

/* However far, where few have holes. */
TEST(a_search_looks_at_the_next_few_holes, .to = 2)
{
        add_steps(EXTENTS_FEW - 1 + (unsigned)_i, 1u << 20);
        ck_assert_uint_eq(start_found(15), _i ? 10000 : 0);
}

/* The last class of all, and none beyond it. */
TEST(a_search_ends_at_the_largest)
{
        (void)run_add(&extents, 5, UINT32_MAX - 10, run_alone);
        ck_assert_uint_eq(start_found(UINT32_MAX - 11), 5);
        ck_assert_uint_eq(start_found(1), 5);
        ck_assert_uint_eq(n_found(UINT32_MAX - 9), 0);
        ck_assert_uint_eq(n_found(UINT32_MAX), 0);
}

/* The only one that is large enough is the last of a long list. */
TEST(a_search_looks_at_all_before_it_gives_up)
{
        add_free(129);
        add_free(133);
        for (unsigned i = 0; i < EXTENTS_LOOK * 3; i++)
                add_free(129);
        ck_assert_uint_eq(n_found(130), 133);
        ck_assert_uint_eq(n_found(134), 0);
        /* A look at the next class is shorter. */
        add_free(100000);
        ck_assert_uint_eq(n_found(130), 100000);
        ck_assert_uint_eq(n_found(129), 129);
}

TEST(large_holes_come_once_each)
{
        static const uint32_t n_units[] = {4, 4096, 5000, 4095, 70000, 4097, 4096, 1u << 31};
        unsigned n_seen = 0, n_large = 0;
        uint64_t n_sum = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(n_units); i++)
                (void)run_add(&extents, i * 100000, n_units[i], run_alone);
        for (uint32_t i = extents_next_large_free(&extents, 4096, 0); i;
             i = extents_next_large_free(&extents, 4096, i)) {
                n_large++;
                n_sum += extents_at(&extents, i)->n_units;
        }
        ck_assert_uint_eq(n_large, 6);
        ck_assert_uint_eq(n_sum, 4096 + 5000 + 70000 + 4097 + 4096 + (UINT64_C(1) << 31));
        for (uint32_t i = extents_next_large_free(&extents, 1, 0); i;
             i = extents_next_large_free(&extents, 1, i))
                n_seen++;
        ck_assert_uint_eq(n_seen, ARRAY_SIZE(n_units));
}

struct slots {
        struct extents extents;
        struct test_random random;
        uint32_t n_units[N_RUNS_MAX]; /* 0: no run there */
        uint32_t edges[N_RUNS_MAX];
};

/* The size below which no hole is of a higher class: sixteen a doubling. */
static uint32_t class_end(uint32_t n_units)
{
        uint32_t step = 1;

        while (n_units / step >= 32)
                step *= 2;
        return (n_units / step + 1) * step;
}

static uint32_t smallest_from(const struct slots *slots, uint32_t n_units)
{
        uint32_t n_best = 0;

        for (unsigned i = 0; i < N_RUNS_MAX; i++) {
                if (slots->n_units[i] >= n_units && slots->n_units[i] &&
                    (!n_best || slots->n_units[i] < n_best))
                        n_best = slots->n_units[i];
        }
        return n_best;
}

/* The only one of its class: the first, too. */
static bool is_single(const struct slots *slots, unsigned at)
{
        unsigned n = 0;

        for (unsigned i = 0; i < N_RUNS_MAX; i++)
                n += slots->n_units[i] &&
                     class_end(slots->n_units[i]) == class_end(slots->n_units[at]);
        return n == 1;
}

/* Classes above the request's, up to that size. */
static unsigned n_classes_between(uint32_t n_wanted, uint32_t n_units)
{
        unsigned n = 0;

        for (uint32_t end = class_end(n_wanted); end < class_end(n_units); end = class_end(end))
                n++;
        return n;
}

/* Always large enough, found if there is any; not above one that stands alone in a class that is looked
 * at, but if it is of the very size. */
static void expect_fit(const struct slots *slots, uint32_t n_wanted)
{
        uint32_t n_best = smallest_from(slots, n_wanted),
                 free_extent = extents_find_free(&slots->extents, n_wanted);
        const struct extent *found = extents_at(&slots->extents, free_extent);

        ck_assert_int_eq(free_extent == 0, n_best == 0);
        if (!free_extent || found->n_units == n_wanted)
                return;
        ck_assert_uint_gt(found->n_units, n_wanted);
        for (unsigned i = 0; i < N_RUNS_MAX; i++) {
                if (slots->n_units[i] >= n_wanted && slots->n_units[i] && is_single(slots, i) &&
                    n_classes_between(n_wanted, slots->n_units[i]) <= EXTENTS_LOOK)
                        ck_assert_uint_le(found->start, i * 10000);
        }
}

static void change_one(struct slots *slots)
{
        unsigned i = (unsigned)test_random_below(&slots->random, N_RUNS_MAX);
        uint32_t start = i * 10000;

        if (slots->n_units[i]) {
                uint32_t free_extent = extents_at(&slots->extents, slots->edges[i])->after;

                (void)run_remove(&slots->extents, free_extent, start, slots->n_units[i]);
                slots->n_units[i] = slots->edges[i] = 0;
        } else {
                slots->n_units[i] = (uint32_t)test_random_size(&slots->random, 300);
                slots->edges[i] = run_add(&slots->extents, start, slots->n_units[i], run_alone)
                                          .before;
        }
}

static void check_slots(const struct slots *slots)
{
        uint32_t edges[N_RUNS_MAX + 1] = {0}, n_largest = 0;
        unsigned n = 0;

        for (unsigned i = 0; i < N_RUNS_MAX; i++) {
                if (slots->edges[i])
                        edges[n++] = slots->edges[i];
                if (slots->n_units[i] > n_largest)
                        n_largest = slots->n_units[i];
        }
        runs_check(&slots->extents, edges);
        ck_assert_uint_eq(extents_largest_free(&slots->extents), n_largest);
}

TEST(what_is_found_fits_and_is_low)
{
        struct slots slots = {.random = test_random_begin()};

        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                change_one(&slots);
                check_slots(&slots);
                expect_fit(&slots, (uint32_t)test_random_size(&slots.random, 300));
        }
        extents_deinit(&slots.extents);
}

TESTS_MAIN("extents", .limit_s = UNLIMITED, .start = begin, .stop = end)
