/* The table of starts beside a plain array. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap/starts.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_UNITS 20000

/* The product's inverse: units whose places are told beforehand. */
#define INVERSE UINT32_C(0x0e8b2f51)

static void add(struct starts *starts, uint32_t unit, uint32_t extent)
{
        ck_assert_int_eq(starts_reserve(starts), 0);
        starts_add(starts, unit, extent);
}

/* A unit that comes after `n_before` others in the chain of the last place. */
static uint32_t last_place(uint32_t n_before)
{
        return (UINT32_MAX - 63 + n_before) * INVERSE;
}

/* In order, none before its place, none lost, and never more than a quarter full. */
static void check(const struct starts *starts)
{
        size_t n_places = ((size_t)1 << starts->n_bits) + (UINT32_C(1) << starts->n_bits) / 4 + 1;
        uint32_t n = 0, n_wrong = 0, last = 0;

        for (size_t i = 0; starts->n_bits && i < n_places; i++) {
                uint32_t product = starts->entries[i].unit * UINT32_C(0x9e3779b1);

                if (!starts->entries[i].extent)
                        continue;
                n_wrong += i < product >> (32 - starts->n_bits) || (n && product <= last);
                last = product;
                n++;
        }
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_uint_eq(n, starts->n_entries);
        ck_assert_uint_le(n, (UINT32_C(1) << starts->n_bits) / 4);
}

TEST(an_empty_table_has_nothing)
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

TEST(units_at_both_ends)
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

/* 64 are a quarter of the first table: all in the chain of its last place, which runs on behind
 * it. Removed from the front, from the back, and every third one first. */
TEST(a_full_table_of_one_chain, .to = 3)
{
        struct starts starts = {0};
        unsigned n_bits = 0;

        for (uint32_t i = 0; i < 64; i++) {
                uint32_t n = _i == 1 ? 63 - i : i * 5 % 64;

                add(&starts, last_place(n), n + 1);
                check(&starts);
        }
        n_bits = starts.n_bits;
        for (uint32_t i = 0; i < 64; i++)
                ck_assert_uint_eq(starts_find(&starts, last_place(i)), i + 1);
        for (uint32_t i = 0; i < 64; i++) {
                uint32_t n = _i == 0 ? i : _i == 1 ? 63 - i : i * 11 % 64;

                ck_assert_uint_eq(starts_remove(&starts, last_place(n)), n + 1);
                ck_assert_uint_eq(starts_remove(&starts, last_place(n)), 0);
                check(&starts);
        }
        ck_assert_uint_eq(starts.n_entries, 0);
        ck_assert_uint_eq(starts.n_bits, n_bits);
        starts_deinit(&starts);
}

/* The chain of the last place, and one more: the larger table's chains are as long. */
TEST(a_full_table_grows)
{
        struct starts starts = {0};
        unsigned n_bits;

        for (uint32_t i = 0; i < 64; i++)
                add(&starts, last_place(i), i + 1);
        n_bits = starts.n_bits;
        add(&starts, 12345, 100);
        ck_assert_uint_eq(starts.n_bits, n_bits + 1);
        check(&starts);
        for (uint32_t i = 0; i < 64; i++)
                ck_assert_uint_eq(starts_find(&starts, last_place(i)), i + 1);
        ck_assert_uint_eq(starts_find(&starts, 12345), 100);
        starts_deinit(&starts);
}

/* To remove an entry moves up those behind it that stand too far down, and leaves alone the first
 * that stands where it belongs and all behind that. */
TEST(the_largest_table_grows_no_more)
{
        struct starts starts = {.n_bits = 31}, before = starts;

        ck_assert_int_eq(starts_reserve(&starts), -ENOMEM);
        ck_assert_mem_eq(&starts, &before, sizeof(starts));
}

TEST(a_removal_moves_up_one_chain_only)
{
        struct starts starts = {0};
        uint32_t units[6];

        /* Places 10, 10, 10, 12, 14, 14 of 256: they stand from 10 to 15, the fifth one at home. */
        for (uint32_t i = 0; i < 6; i++) {
                static const uint32_t places[] = {10, 10, 10, 12, 14, 14};

                units[i] = ((places[i] << 24) + i) * INVERSE;
                add(&starts, units[i], i + 1);
        }
        ck_assert_uint_eq(starts.n_bits, 8);
        for (uint32_t i = 0; i < 6; i++)
                ck_assert_uint_eq(starts.entries[10 + i].extent, i + 1);
        ck_assert_uint_eq(starts_remove(&starts, units[1]), 2);
        ck_assert_uint_eq(starts.entries[11].extent, 3);
        ck_assert_uint_eq(starts.entries[12].extent, 4);
        ck_assert_uint_eq(starts.entries[13].extent, 0);
        ck_assert_uint_eq(starts.entries[14].extent, 5);
        ck_assert_uint_eq(starts.entries[15].extent, 6);
        check(&starts);
        starts_deinit(&starts);
}

struct naive {
        struct starts starts;
        uint32_t extents[N_UNITS]; /* 0: nothing starts there */
        uint32_t n_entries;
};

/* False: the table does otherwise. */
static bool change_one(struct naive *naive, struct test_random *random, bool grows)
{
        uint32_t i = (uint32_t)test_random_below(random, N_UNITS), unit = i * 4099 - 7;
        uint32_t extent = naive->extents[i];

        if (starts_find(&naive->starts, unit) != extent)
                return false;
        if (grows && !extent) {
                naive->extents[i] = 1 + (uint32_t)test_random_below(random, UINT32_MAX);
                naive->n_entries++;
                if (starts_reserve(&naive->starts))
                        return false;
                starts_add(&naive->starts, unit, naive->extents[i]);
        } else if (!grows) {
                naive->extents[i] = 0;
                naive->n_entries -= extent != 0;
                if (starts_remove(&naive->starts, unit) != extent)
                        return false;
        }
        return naive->starts.n_entries == naive->n_entries;
}

/* Phases of growth and of shrinking; few units, so that each comes and goes often. */
TEST(a_table_does_what_an_array_does)
{
        static struct naive naive;
        struct test_random random = test_random_begin();

        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                bool grows = test_random_below(&random, 10) < (step / 10000 % 2 ? 3 : 7);

                if (!change_one(&naive, &random, grows))
                        ck_abort_msg("step %" PRIu64, step);
                if (step % 10000 == 0)
                        check(&naive.starts);
        }
        check(&naive.starts);
        starts_deinit(&naive.starts);
}

TESTS_MAIN("starts", .limit_s = UNLIMITED)
