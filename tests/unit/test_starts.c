/* The table of starts beside a plain array. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/starts.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_UNITS 20000

/* The product's inverse: units whose places are told beforehand. */
#define INVERSE UINT32_C(0x0e8b2f51)

static void add(struct starts *starts, uint32_t unit, uint32_t piece)
{
        ck_assert_int_eq(starts_reserve(starts), 0);
        starts_add(starts, unit, piece);
}

/* A unit that comes after `n_before` others in the chain of the last place. */
static uint32_t last_place(uint32_t n_before)
{
        return (UINT32_MAX - 47 + n_before) * INVERSE;
}

static uint32_t n_standing(const struct starts *starts)
{
        size_t n_places = ((size_t)1 << starts->n_bits) + (UINT32_C(3) << (starts->n_bits - 2)) + 1;
        uint32_t n = 0, last = 0;

        for (size_t i = 0; i < n_places; i++) {
                uint32_t product = starts->entries[i].unit * UINT32_C(0x9e3779b1);

                if (!starts->entries[i].piece)
                        continue;
                ck_assert_uint_ge(i, product >> (32 - starts->n_bits));
                ck_assert(n == 0 || product > last);
                last = product;
                n++;
        }
        return n;
}

/* In order, none lost, and never more than three quarters full. */
static void check(const struct starts *starts)
{
        if (!starts->n_bits)
                return;
        ck_assert_uint_eq(n_standing(starts), starts->n_entries);
        ck_assert_uint_le(starts->n_entries, UINT32_C(3) << (starts->n_bits - 2));
}

START_TEST(an_empty_table_has_nothing)
{
        struct starts starts = {0};

        ck_assert_uint_eq(starts_find(&starts, 0), 0);
        ck_assert_uint_eq(starts_remove(&starts, UINT32_MAX), 0);
        ck_assert_int_eq(starts_reserve(&starts), 0);
        ck_assert_uint_eq(starts_find(&starts, 0), 0);
        ck_assert_uint_eq(starts_remove(&starts, 0), 0);
        starts_deinit(&starts);
        ck_assert_ptr_null(starts.entries);
        starts_deinit(&starts);
}
END_TEST

START_TEST(units_at_both_ends)
{
        struct starts starts = {0};

        add(&starts, 0, 1);
        add(&starts, UINT32_MAX, 2);
        add(&starts, 1, UINT32_MAX);
        check(&starts);
        ck_assert_uint_eq(starts_find(&starts, 0), 1);
        ck_assert_uint_eq(starts_find(&starts, UINT32_MAX), 2);
        ck_assert_uint_eq(starts_remove(&starts, 1), UINT32_MAX);
        ck_assert_uint_eq(starts_remove(&starts, 0), 1);
        ck_assert_uint_eq(starts_find(&starts, 0), 0);
        ck_assert_uint_eq(starts_find(&starts, UINT32_MAX), 2);
        check(&starts);
        starts_deinit(&starts);
}
END_TEST

/* 48 are three quarters of the first table: all in the chain of its last place, which runs on behind
 * it. Removed from the front, from the back, and every third one first. */
START_TEST(a_full_table_of_one_chain)
{
        struct starts starts = {0};
        unsigned n_bits = 0;

        for (uint32_t i = 0; i < 48; i++) {
                uint32_t n = _i == 1 ? 47 - i : i * 5 % 48;

                add(&starts, last_place(n), n + 1);
                check(&starts);
        }
        n_bits = starts.n_bits;
        for (uint32_t i = 0; i < 48; i++)
                ck_assert_uint_eq(starts_find(&starts, last_place(i)), i + 1);
        for (uint32_t i = 0; i < 48; i++) {
                uint32_t n = _i == 0 ? i : _i == 1 ? 47 - i : i * 11 % 48;

                ck_assert_uint_eq(starts_remove(&starts, last_place(n)), n + 1);
                ck_assert_uint_eq(starts_remove(&starts, last_place(n)), 0);
                check(&starts);
        }
        ck_assert_uint_eq(starts.n_entries, 0);
        ck_assert_uint_eq(starts.n_bits, n_bits);
        starts_deinit(&starts);
}
END_TEST

/* The chain of the last place, and one more: the larger table's chains are as long. */
START_TEST(a_full_table_grows)
{
        struct starts starts = {0};
        unsigned n_bits;

        for (uint32_t i = 0; i < 48; i++)
                add(&starts, last_place(i), i + 1);
        n_bits = starts.n_bits;
        add(&starts, 12345, 100);
        ck_assert_uint_eq(starts.n_bits, n_bits + 1);
        check(&starts);
        for (uint32_t i = 0; i < 48; i++)
                ck_assert_uint_eq(starts_find(&starts, last_place(i)), i + 1);
        ck_assert_uint_eq(starts_find(&starts, 12345), 100);
        starts_deinit(&starts);
}
END_TEST

/* To remove an entry moves up those behind it that stand too far down, and leaves alone the first
 * that stands where it belongs and all behind that. */
START_TEST(a_removal_moves_up_one_chain_only)
{
        struct starts starts = {0};
        uint32_t units[6];

        /* Places 10, 10, 10, 12, 14, 14 of 64: they stand from 10 to 15, the fifth one at home. */
        for (uint32_t i = 0; i < 6; i++) {
                static const uint32_t places[] = {10, 10, 10, 12, 14, 14};

                units[i] = ((places[i] << 26) + i) * INVERSE;
                add(&starts, units[i], i + 1);
        }
        ck_assert_uint_eq(starts.n_bits, 6);
        for (uint32_t i = 0; i < 6; i++)
                ck_assert_uint_eq(starts.entries[10 + i].piece, i + 1);
        ck_assert_uint_eq(starts_remove(&starts, units[1]), 2);
        ck_assert_uint_eq(starts.entries[11].piece, 3);
        ck_assert_uint_eq(starts.entries[12].piece, 4);
        ck_assert_uint_eq(starts.entries[13].piece, 0);
        ck_assert_uint_eq(starts.entries[14].piece, 5);
        ck_assert_uint_eq(starts.entries[15].piece, 6);
        check(&starts);
        starts_deinit(&starts);
}
END_TEST

/* Phases of growth and of shrinking; few units, so that each comes and goes often. */
START_TEST(a_table_does_what_an_array_does)
{
        static uint32_t pieces[N_UNITS];
        struct test_random random = test_random_begin();
        struct starts starts = {0};
        uint32_t n_entries = 0;

        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                uint32_t i = (uint32_t)test_random_below(&random, N_UNITS), unit = i * 4099 - 7;
                bool grows = test_random_below(&random, 10) < (step / 10000 % 2 ? 3 : 7);

                ck_assert_uint_eq(starts_find(&starts, unit), pieces[i]);
                if (grows && !pieces[i]) {
                        pieces[i] = 1 + (uint32_t)test_random_below(&random, UINT32_MAX);
                        add(&starts, unit, pieces[i]);
                        n_entries++;
                } else if (!grows) {
                        ck_assert_uint_eq(starts_remove(&starts, unit), pieces[i]);
                        n_entries -= pieces[i] != 0;
                        pieces[i] = 0;
                }
                ck_assert_uint_eq(starts.n_entries, n_entries);
                if (step % 1000 == 0)
                        check(&starts);
        }
        check(&starts);
        starts_deinit(&starts);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("starts");
        TCase *tcase = tcase_create("starts");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, an_empty_table_has_nothing);
        tcase_add_test(tcase, units_at_both_ends);
        tcase_add_loop_test(tcase, a_full_table_of_one_chain, 0, 3);
        tcase_add_test(tcase, a_full_table_grows);
        tcase_add_test(tcase, a_removal_moves_up_one_chain_only);
        tcase_add_test(tcase, a_table_does_what_an_array_does);
        return run_suite(suite);
}
