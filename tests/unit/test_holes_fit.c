/* Which hole is found for a request: the best of the few that are looked at, and always one if there
 * is one. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/holes_runs.h"

#define N_RUNS_MAX 64

/* A run of that many units of its own, which is one hole; the runs do not touch. */
static void add_hole(struct holes *holes, uint32_t n_units)
{
        (void)run_add(holes, (uint32_t)holes->n_holes * 10000, n_units, run_alone);
}

static uint32_t n_found(const struct holes *holes, uint32_t n_units)
{
        uint32_t hole = holes_find(holes, n_units);

        return hole ? holes_at(holes, hole)->n_units : 0;
}

/* 128 to 135 units are one class: the fit is inside the request's own class. */
START_TEST(the_smallest_of_a_class_that_fits_is_found)
{
        static const uint32_t n_units[] = {135, 128, 132, 130, 133};
        struct holes holes;

        holes_init(&holes);
        for (unsigned i = 0; i < ARRAY_SIZE(n_units); i++)
                add_hole(&holes, n_units[i]);
        ck_assert_uint_eq(n_found(&holes, 128), 128);
        ck_assert_uint_eq(n_found(&holes, 129), 130);
        ck_assert_uint_eq(n_found(&holes, 131), 132);
        ck_assert_uint_eq(n_found(&holes, 134), 135);
        ck_assert_uint_eq(n_found(&holes, 136), 0);
        ck_assert_uint_eq(n_found(&holes, 127), 128);
        ck_assert_uint_eq(n_found(&holes, 1), 128);
        ck_assert_uint_eq(holes_largest(&holes), 135);
        holes_deinit(&holes);
}
END_TEST

/* Last in, first out: what is at the head of the list is likely in the cache. */
START_TEST(the_latest_among_equals_is_found)
{
        struct holes holes;

        holes_init(&holes);
        for (unsigned i = 0; i < 5; i++)
                add_hole(&holes, 10);
        for (uint32_t i = 5; i > 0; i--) {
                uint32_t hole = holes_find(&holes, i);

                ck_assert_uint_eq(holes_at(&holes, hole)->start, (i - 1) * 10000);
                (void)run_remove(&holes, hole, (i - 1) * 10000, 10);
        }
        ck_assert_uint_eq(holes_find(&holes, 1), 0);
        holes_deinit(&holes);
}
END_TEST

/* One that fits best came first, so it is the last of its list: it is found as long as no more than
 * HOLES_LOOK are in it. In the request's class and in a higher one. */
START_TEST(a_search_looks_at_few)
{
        static const uint32_t wanted[] = {128, 100};
        struct holes holes;

        holes_init(&holes);
        add_hole(&holes, 128);
        for (unsigned i = 1; i < HOLES_LOOK; i++)
                add_hole(&holes, 131);
        ck_assert_uint_eq(n_found(&holes, wanted[_i]), 128);
        add_hole(&holes, 132);
        ck_assert_uint_eq(n_found(&holes, wanted[_i]), 131);
        holes_deinit(&holes);
}
END_TEST

/* The only one that is large enough is the last of a long list. */
START_TEST(a_search_looks_at_all_before_it_gives_up)
{
        struct holes holes;

        holes_init(&holes);
        add_hole(&holes, 133);
        for (unsigned i = 0; i < HOLES_LOOK * 3; i++)
                add_hole(&holes, 129);
        ck_assert_uint_eq(n_found(&holes, 130), 133);
        ck_assert_uint_eq(n_found(&holes, 134), 0);
        /* A look at the next class is shorter. */
        add_hole(&holes, 100000);
        ck_assert_uint_eq(n_found(&holes, 130), 100000);
        ck_assert_uint_eq(n_found(&holes, 129), 129);
        holes_deinit(&holes);
}
END_TEST

START_TEST(large_holes_come_once_each)
{
        static const uint32_t n_units[] = {4, 4096, 5000, 4095, 70000, 4097, 4096, 1u << 31};
        unsigned n_seen = 0, n_large = 0;
        uint64_t n_sum = 0;
        struct holes holes;

        holes_init(&holes);
        for (unsigned i = 0; i < ARRAY_SIZE(n_units); i++)
                (void)run_add(&holes, i * 100000, n_units[i], run_alone);
        for (uint32_t i = holes_next_large(&holes, 4096, 0); i;
             i = holes_next_large(&holes, 4096, i)) {
                n_large++;
                n_sum += holes_at(&holes, i)->n_units;
        }
        ck_assert_uint_eq(n_large, 6);
        ck_assert_uint_eq(n_sum, 4096 + 5000 + 70000 + 4097 + 4096 + (UINT64_C(1) << 31));
        for (uint32_t i = holes_next_large(&holes, 1, 0); i; i = holes_next_large(&holes, 1, i))
                n_seen++;
        ck_assert_uint_eq(n_seen, ARRAY_SIZE(n_units));
        holes_deinit(&holes);
}
END_TEST

struct slots {
        struct holes holes;
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

/* Of a class, how many. */
static unsigned n_in_class(const struct slots *slots, uint32_t n_units)
{
        unsigned n = 0;

        for (unsigned i = 0; i < N_RUNS_MAX; i++)
                n += slots->n_units[i] && class_end(slots->n_units[i]) == class_end(n_units);
        return n;
}

/* Always large enough, found if there is any; the best where its list is short. */
static void expect_fit(const struct slots *slots, uint32_t n_wanted)
{
        uint32_t n_best = smallest_from(slots, n_wanted),
                 n_units = n_found(&slots->holes, n_wanted);

        ck_assert_int_eq(n_units == 0, n_best == 0);
        ck_assert_uint_ge(n_units, n_best);
        if (n_best && n_in_class(slots, n_best) <= HOLES_LOOK)
                ck_assert_uint_eq(n_units, n_best);
        if (n_best && n_in_class(slots, n_wanted) <= HOLES_LOOK)
                ck_assert_uint_lt(n_units, class_end(n_best));
}

static void change_one(struct slots *slots)
{
        unsigned i = (unsigned)test_random_below(&slots->random, N_RUNS_MAX);
        uint32_t start = i * 10000;

        if (slots->n_units[i]) {
                uint32_t hole = holes_at(&slots->holes, slots->edges[i])->after;

                (void)run_remove(&slots->holes, hole, start, slots->n_units[i]);
                slots->n_units[i] = slots->edges[i] = 0;
        } else {
                slots->n_units[i] = (uint32_t)test_random_size(&slots->random, 300);
                slots->edges[i] = run_add(&slots->holes, start, slots->n_units[i], run_alone)
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
        runs_check(&slots->holes, edges);
        ck_assert_uint_eq(holes_largest(&slots->holes), n_largest);
}

START_TEST(a_fit_is_what_a_search_of_all_finds)
{
        struct slots slots = {.random = test_random_begin()};

        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                change_one(&slots);
                check_slots(&slots);
                expect_fit(&slots, (uint32_t)test_random_size(&slots.random, 300));
        }
        holes_deinit(&slots.holes);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("holes_fit");
        TCase *tcase = tcase_create("holes_fit");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, the_smallest_of_a_class_that_fits_is_found);
        tcase_add_test(tcase, the_latest_among_equals_is_found);
        tcase_add_loop_test(tcase, a_search_looks_at_few, 0, 2);
        tcase_add_test(tcase, a_search_looks_at_all_before_it_gives_up);
        tcase_add_test(tcase, large_holes_come_once_each);
        tcase_add_test(tcase, a_fit_is_what_a_search_of_all_finds);
        return run_suite(suite);
}
