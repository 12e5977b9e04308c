/* SPDX-License-Identifier: Apache-2.0 */
/* Extents that are cut; and which free extent is found for a request: one of exactly its size, or else the lowest of
 * the few that are looked at, and always one if there is one. tests/model/test_heap_model.c compares the rest. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/heap/extents_runs.h"

#define N_RUNS_MAX  64
#define N_UNITS_MAX (2 * EXTENTS_LARGE) /* of a hole */

static struct extents extents;

static void begin(void)
{
        extents_init(&extents);
}

static void end(void)
{
        extents_deinit(&extents);
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

/* The one that is given back last merges with the holes on both sides. */
TEST(holes_that_merge_are_counted)
{
        uint32_t cut[3];

        (void)run_add(&extents, 1000, 12, run_alone);
        for (unsigned i = 0; i < ARRAY_SIZE(cut); i++)
                cut[i] = run_cut(&extents, 4);
        (void)extents_give(&extents, cut[0]);
        (void)extents_give(&extents, cut[2]);
        ck_assert_uint_eq(extents.n_merges, 0);
        run_expect(&extents, extents_give(&extents, cut[1]), EXTENT_FREE, 1000, 12);
        ck_assert_uint_eq(extents.n_merges, 2);
}

/* 2^31 are the most that double. */
TEST(the_largest_array_grows_no_more)
{
        struct extents full = {.n_extents = UINT32_C(1) << 31, .n_touched = UINT32_C(1) << 31};

        ck_assert_int_eq(extents_reserve(&full, 1), -ENOMEM);
        ck_assert_uint_eq(full.n_extents, UINT32_C(1) << 31);
}

/* A run of that many units of its own, which is one hole; the runs do not touch. */
static void add_free(uint32_t n_units)
{
        (void)run_add(&extents, (uint32_t)extents.n_free * 10000, n_units, run_alone);
}

/* Several of them are in one class, whose list is not sorted by size. */
TEST(the_largest_hole_is_found_in_its_class)
{
        static const uint32_t sizes[] = {3, 15, 1000, 1023, 1010, 995};
        uint32_t n_largest = 0;

        ck_assert_uint_eq(extents_largest_free(&extents), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                add_free(sizes[i]);
                n_largest = sizes[i] > n_largest ? sizes[i] : n_largest;
                ck_assert_uint_eq(extents_largest_free(&extents), n_largest);
        }
}

static uint32_t start_found(uint32_t n_units)
{
        uint32_t free_extent = extents_find_free(&extents, n_units);

        ck_assert_uint_ne(free_extent, 0);
        return extents_at(&extents, free_extent)->start;
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

/* A larger hole stays whole, though it is lower, as long as a near one serves the request. */
TEST(a_large_request_prefers_near_holes, .to = 2)
{
        uint32_t n_units = EXTENTS_LARGE - 1 + (uint32_t)_i;

        add_free(2 * EXTENTS_LARGE);
        add_free(EXTENTS_LARGE + EXTENTS_LARGE / 16 * EXTENTS_NEAR);
        add_free(EXTENTS_LARGE + EXTENTS_LARGE / 16);
        ck_assert_uint_eq(start_found(n_units), _i ? 10000 : 0);
}

TEST(a_large_request_takes_the_lowest_hole_if_none_is_near)
{
        add_free(2 * EXTENTS_LARGE);
        add_free(EXTENTS_LARGE + EXTENTS_LARGE / 16 * (EXTENTS_NEAR + 1));
        ck_assert_uint_eq(start_found(EXTENTS_LARGE), 0);
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
        unsigned n_looked_at = n_wanted < EXTENTS_LARGE ? EXTENTS_LOOK : EXTENTS_NEAR;
        const struct extent *found = extents_at(&slots->extents, free_extent);

        ck_assert_int_eq(free_extent == 0, n_best == 0);
        if (!free_extent || found->n_units == n_wanted)
                return;
        ck_assert_uint_gt(found->n_units, n_wanted);
        for (unsigned i = 0; i < N_RUNS_MAX; i++) {
                if (slots->n_units[i] >= n_wanted && slots->n_units[i] && is_single(slots, i) &&
                    n_classes_between(n_wanted, slots->n_units[i]) <= n_looked_at)
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
                slots->n_units[i] = (uint32_t)test_random_size(&slots->random, N_UNITS_MAX);
                slots->edges[i] = run_add(&slots->extents, start, slots->n_units[i], run_alone)
                                          .before;
        }
}

static void check_slots(const struct slots *slots)
{
        uint32_t edges[N_RUNS_MAX + 1] = {0};
        unsigned n = 0;

        for (unsigned i = 0; i < N_RUNS_MAX; i++) {
                if (slots->edges[i])
                        edges[n++] = slots->edges[i];
        }
        runs_check(&slots->extents, edges);
}

TEST(what_is_found_fits_and_is_low)
{
        struct slots slots = {.random = test_random_begin()};

        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                change_one(&slots);
                check_slots(&slots);
                expect_fit(&slots, (uint32_t)test_random_size(&slots.random, N_UNITS_MAX));
        }
        extents_deinit(&slots.extents);
}

TESTS_MAIN("extents", .limit_s = UNLIMITED, .start = begin, .stop = end)
