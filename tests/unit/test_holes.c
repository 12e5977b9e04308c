#include <check.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/holes.h"
#include "tests/random.h"
#include "tests/suite.h"

#define UNIT UINT64_C(512)

static void check_spans(const struct holes *holes, const struct piece *const *spans, unsigned n)
{
        struct holes_tally tally = {0};

        for (unsigned i = 0; i < n; i++)
                holes_tally_span(holes, spans[i], &tally);
        holes_check(holes, &tally);
}

static void check_span(const struct holes *holes, const struct piece *first)
{
        check_spans(holes, &first, 1);
}

START_TEST(nothing_is_found_in_nothing)
{
        struct holes holes;
        struct holes_tally tally = {0};

        holes_init(&holes, UNIT);
        ck_assert_ptr_null(holes_find(&holes, UNIT));
        ck_assert_ptr_null(holes_find(&holes, UINT64_MAX & ~(UNIT - 1)));
        ck_assert_uint_eq(holes_largest(&holes), 0);
        holes_check(&holes, &tally);
}
END_TEST

START_TEST(a_span_is_one_hole_until_it_is_removed)
{
        struct holes holes;
        struct holes_tally tally = {0};
        struct piece span;

        holes_init(&holes, UNIT);
        holes_add(&holes, &span, 64 * UNIT, 100 * UNIT);
        check_span(&holes, &span);
        ck_assert_ptr_eq(holes_find(&holes, UNIT), &span);
        ck_assert_ptr_eq(holes_find(&holes, 100 * UNIT), &span);
        ck_assert_ptr_null(holes_find(&holes, 101 * UNIT));
        ck_assert_uint_eq(holes_largest(&holes), 100 * UNIT);
        holes_remove(&holes, &span);
        ck_assert_ptr_null(holes_find(&holes, UNIT));
        holes_check(&holes, &tally);
}
END_TEST

/* 96 to 103 units are one class: the fit is inside the request's own class. */
START_TEST(the_smallest_of_a_class_that_fits_is_found)
{
        static const uint64_t n_units[] = {103, 96, 100, 98, 101};
        struct piece spans[ARRAY_SIZE(n_units)];
        struct holes holes;

        holes_init(&holes, UNIT);
        for (unsigned i = 0; i < ARRAY_SIZE(n_units); i++)
                holes_add(&holes, &spans[i], i * MIB, n_units[i] * UNIT);
        ck_assert_ptr_eq(holes_find(&holes, 96 * UNIT), &spans[1]);
        ck_assert_ptr_eq(holes_find(&holes, 97 * UNIT), &spans[3]);
        ck_assert_ptr_eq(holes_find(&holes, 99 * UNIT), &spans[2]);
        ck_assert_ptr_eq(holes_find(&holes, 101 * UNIT), &spans[4]);
        ck_assert_ptr_eq(holes_find(&holes, 102 * UNIT), &spans[0]);
        ck_assert_ptr_null(holes_find(&holes, 104 * UNIT));
        ck_assert_ptr_eq(holes_find(&holes, 95 * UNIT), &spans[1]);
        ck_assert_uint_eq(holes_largest(&holes), 103 * UNIT);
}
END_TEST

START_TEST(the_lowest_among_equals_is_found)
{
        static const uint64_t starts[] = {7, 3, 9, 1, 5};
        struct piece spans[ARRAY_SIZE(starts)];
        struct holes holes;

        holes_init(&holes, UNIT);
        for (unsigned i = 0; i < ARRAY_SIZE(starts); i++)
                holes_add(&holes, &spans[i], starts[i] * MIB, 10 * UNIT);
        for (uint64_t lowest = 1; lowest <= 9; lowest += 2) {
                struct piece *hole = holes_find(&holes, 10 * UNIT);

                ck_assert_uint_eq(hole->start, lowest * MIB);
                ck_assert_ptr_eq(holes_find(&holes, UNIT), hole);
                holes_remove(&holes, hole);
        }
        ck_assert_ptr_null(holes_find(&holes, UNIT));
}
END_TEST

START_TEST(a_cut_leaves_the_rest)
{
        struct holes holes;
        struct piece span, rest;

        holes_init(&holes, UNIT);
        holes_add(&holes, &span, MIB, 10 * UNIT);
        holes_take(&holes, &span, 4 * UNIT, &rest);
        check_span(&holes, &span);
        ck_assert_int_eq(span.state, PIECE_TAKEN);
        ck_assert_uint_eq(span.start, MIB);
        ck_assert_uint_eq(span.n_bytes, 4 * UNIT);
        ck_assert_int_eq(rest.state, PIECE_HOLE);
        ck_assert_uint_eq(rest.start, MIB + 4 * UNIT);
        ck_assert_uint_eq(rest.n_bytes, 6 * UNIT);
        holes_take(&holes, &rest, 6 * UNIT, NULL);
        check_span(&holes, &span);
        ck_assert_uint_eq(holes.n_holes, 0);
        ck_assert_uint_eq(holes.n_bytes, 0);
        ck_assert_ptr_null(holes_find(&holes, UNIT));
}
END_TEST

/* Three taken pieces in a row, and room behind them. */
struct row {
        struct holes holes;
        struct piece a, b, c, room;
};

static void row_init(struct row *row)
{
        holes_init(&row->holes, UNIT);
        holes_add(&row->holes, &row->a, MIB, 100 * UNIT);
        holes_take(&row->holes, &row->a, 10 * UNIT, &row->b);
        holes_take(&row->holes, &row->b, 20 * UNIT, &row->c);
        holes_take(&row->holes, &row->c, 30 * UNIT, &row->room);
        check_span(&row->holes, &row->a);
}

START_TEST(a_hole_between_taken_pieces_merges_with_nothing)
{
        struct row row;

        row_init(&row);
        ck_assert_uint_eq(holes_give(&row.holes, &row.b).n, 0);
        check_span(&row.holes, &row.a);
        ck_assert_uint_eq(row.holes.n_holes, 2);
        ck_assert_ptr_eq(holes_find(&row.holes, 20 * UNIT), &row.b);
}
END_TEST

START_TEST(a_hole_merges_with_the_one_before)
{
        struct row row;
        struct holes_used_up used_up;

        row_init(&row);
        (void)holes_give(&row.holes, &row.a);
        used_up = holes_give(&row.holes, &row.b);
        check_span(&row.holes, &row.a);
        ck_assert_uint_eq(used_up.n, 1);
        ck_assert_ptr_eq(used_up.pieces[0], &row.b);
        ck_assert_uint_eq(row.a.n_bytes, 30 * UNIT);
        ck_assert_ptr_eq(row.c.before, &row.a);
}
END_TEST

START_TEST(a_hole_merges_with_the_one_after)
{
        struct row row;
        struct holes_used_up used_up;

        row_init(&row);
        used_up = holes_give(&row.holes, &row.c);
        check_span(&row.holes, &row.a);
        ck_assert_uint_eq(used_up.n, 1);
        ck_assert_ptr_eq(used_up.pieces[0], &row.room);
        ck_assert_uint_eq(row.c.n_bytes, 70 * UNIT);
        ck_assert_ptr_null(row.c.after);
}
END_TEST

START_TEST(a_hole_merges_with_both)
{
        struct row row;
        struct holes_used_up used_up;

        row_init(&row);
        (void)holes_give(&row.holes, &row.a);
        (void)holes_give(&row.holes, &row.c);
        used_up = holes_give(&row.holes, &row.b);
        check_span(&row.holes, &row.a);
        ck_assert_uint_eq(used_up.n, 2);
        ck_assert(used_up.pieces[0] == &row.b || used_up.pieces[1] == &row.b);
        ck_assert(used_up.pieces[0] == &row.c || used_up.pieces[1] == &row.c);
        ck_assert_uint_eq(row.a.n_bytes, 100 * UNIT);
        ck_assert_ptr_null(row.a.after);
        ck_assert_uint_eq(row.holes.n_holes, 1);
        holes_remove(&row.holes, &row.a);
}
END_TEST

START_TEST(spans_that_touch_stay_apart)
{
        struct holes holes;
        struct piece low, high;
        const struct piece *spans[] = {&low, &high};

        holes_init(&holes, UNIT);
        holes_add(&holes, &low, MIB, 10 * UNIT);
        holes_add(&holes, &high, MIB + 10 * UNIT, 10 * UNIT);
        check_spans(&holes, spans, 2);
        ck_assert_ptr_null(holes_find(&holes, 11 * UNIT));
        holes_take(&holes, &low, 10 * UNIT, NULL);
        ck_assert_uint_eq(holes_give(&holes, &low).n, 0);
        check_spans(&holes, spans, 2);
}
END_TEST

START_TEST(an_arena_counts_in_granules)
{
        struct holes holes;
        struct piece arena, rest, tail;

        holes_init(&holes, 2 * MIB);
        holes_add(&holes, &arena, UINT64_C(1) << 46, TIB);
        holes_take(&holes, &arena, 64 * MIB, &rest);
        ck_assert_uint_eq(arena.start, UINT64_C(1) << 46);
        holes_take(&holes, holes_find(&holes, 2 * MIB), 2 * MIB, &tail);
        ck_assert_uint_eq(rest.start, (UINT64_C(1) << 46) + 64 * MIB);
        (void)holes_give(&holes, &arena);
        check_span(&holes, &arena);
        ck_assert_ptr_eq(holes_find(&holes, 64 * MIB), &arena);
        ck_assert_ptr_eq(holes_find(&holes, 66 * MIB), &tail);
        ck_assert_uint_eq(holes_largest(&holes), TIB - 66 * MIB);
}
END_TEST

START_TEST(addresses_reach_to_the_last_unit)
{
        struct holes holes;
        struct piece span;

        holes_init(&holes, UNIT);
        holes_add(&holes, &span, 0, UINT64_MAX & ~(UNIT - 1));
        check_span(&holes, &span);
        ck_assert_ptr_eq(holes_find(&holes, UINT64_MAX & ~(UNIT - 1)), &span);
        ck_assert_ptr_eq(holes_find(&holes, UNIT), &span);
}
END_TEST

#define N_SLOTS 64

static bool is_better(const struct piece *a, const struct piece *b)
{
        return !b || a->n_bytes < b->n_bytes || (a->n_bytes == b->n_bytes && a->start < b->start);
}

/* Spans of their own, so that every order of coming and going is met: the fit is compared with a
 * search of all of them. */
START_TEST(a_fit_is_what_a_search_of_all_finds)
{
        struct test_random random = test_random_begin();
        struct piece spans[N_SLOTS];
        bool used[N_SLOTS] = {false};
        struct holes holes;

        holes_init(&holes, UNIT);
        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                unsigned slot = (unsigned)test_random_below(&random, N_SLOTS);
                uint64_t wanted = test_random_size(&random, 300) * UNIT;
                const struct piece *best = NULL;
                struct holes_tally tally = {0};

                if (used[slot])
                        holes_remove(&holes, &spans[slot]);
                else
                        holes_add(&holes, &spans[slot], slot * MIB,
                                  test_random_size(&random, 300) * UNIT);
                used[slot] = !used[slot];
                for (unsigned i = 0; i < N_SLOTS; i++) {
                        if (!used[i])
                                continue;
                        holes_tally_span(&holes, &spans[i], &tally);
                        if (spans[i].n_bytes >= wanted && is_better(&spans[i], best))
                                best = &spans[i];
                }
                holes_check(&holes, &tally);
                ck_assert_ptr_eq(holes_find(&holes, wanted), best);
        }
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("holes");
        TCase *tcase = tcase_create("holes");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, nothing_is_found_in_nothing);
        tcase_add_test(tcase, a_span_is_one_hole_until_it_is_removed);
        tcase_add_test(tcase, the_smallest_of_a_class_that_fits_is_found);
        tcase_add_test(tcase, the_lowest_among_equals_is_found);
        tcase_add_test(tcase, a_cut_leaves_the_rest);
        tcase_add_test(tcase, a_hole_between_taken_pieces_merges_with_nothing);
        tcase_add_test(tcase, a_hole_merges_with_the_one_before);
        tcase_add_test(tcase, a_hole_merges_with_the_one_after);
        tcase_add_test(tcase, a_hole_merges_with_both);
        tcase_add_test(tcase, spans_that_touch_stay_apart);
        tcase_add_test(tcase, an_arena_counts_in_granules);
        tcase_add_test(tcase, addresses_reach_to_the_last_unit);
        tcase_add_test(tcase, a_fit_is_what_a_search_of_all_finds);
        return run_suite(suite);
}
