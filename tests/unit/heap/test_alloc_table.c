/* SPDX-License-Identifier: Apache-2.0 */
/* The table of starts beside a plain array. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap/alloc_table.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_UNITS 20000

/* The product's inverse: units whose places are told beforehand. */
#define INVERSE UINT32_C(0x0e8b2f51)

static void add(struct alloc_table *table, uint32_t unit, uint32_t extent)
{
        ck_assert_int_eq(alloc_table_reserve(table), 0);
        alloc_table_add(table, unit, extent);
}

/* A unit that comes after `n_before` others in the chain of the last place. */
static uint32_t last_place(uint32_t n_before)
{
        return (UINT32_MAX - 63 + n_before) * INVERSE;
}

/* In order, none before its place, none lost, and never more than a quarter full. */
static void check(const struct alloc_table *table)
{
        size_t n_places = ((size_t)1 << table->n_bits) + (UINT32_C(1) << table->n_bits) / 4 + 1;
        uint32_t n = 0, n_wrong = 0, last = 0;

        for (size_t i = 0; table->n_bits && i < n_places; i++) {
                uint32_t product = table->entries[i].unit * UINT32_C(0x9e3779b1);

                if (!table->entries[i].extent)
                        continue;
                n_wrong += i < product >> (32 - table->n_bits) || (n && product <= last);
                last = product;
                n++;
        }
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_uint_eq(n, table->n_entries);
        ck_assert_uint_le(n, (UINT32_C(1) << table->n_bits) / 4);
}

/* 64 are a quarter of the first table: all in the chain of its last place, which runs on behind
 * it. Removed from the front, from the back, and every third one first. */
TEST(a_full_table_of_one_chain, .to = 3)
{
        struct alloc_table table = {0};
        unsigned n_bits = 0;

        for (uint32_t i = 0; i < 64; i++) {
                uint32_t n = _i == 1 ? 63 - i : i * 5 % 64;

                add(&table, last_place(n), n + 1);
                check(&table);
        }
        n_bits = table.n_bits;
        for (uint32_t i = 0; i < 64; i++)
                ck_assert_uint_eq(alloc_table_find(&table, last_place(i)), i + 1);
        for (uint32_t i = 0; i < 64; i++) {
                uint32_t n = _i == 0 ? i : _i == 1 ? 63 - i : i * 11 % 64;

                ck_assert_uint_eq(alloc_table_remove(&table, last_place(n)), n + 1);
                ck_assert_uint_eq(alloc_table_remove(&table, last_place(n)), 0);
                check(&table);
        }
        ck_assert_uint_eq(table.n_entries, 0);
        ck_assert_uint_eq(table.n_bits, n_bits);
        alloc_table_deinit(&table);
}

/* To remove an entry moves up those behind it that stand too far down, and leaves alone the first
 * that stands where it belongs and all behind that. */
TEST(the_largest_table_grows_no_more)
{
        struct alloc_table table = {.n_bits = 31}, before = table;

        ck_assert_int_eq(alloc_table_reserve(&table), -ENOMEM);
        ck_assert_mem_eq(&table, &before, sizeof(table));
}

struct naive {
        struct alloc_table table;
        uint32_t extents[N_UNITS]; /* 0: nothing starts there */
        uint32_t n_entries;
};

/* False: the table does otherwise. */
static bool change_one(struct naive *naive, struct test_random *random, bool grows)
{
        uint32_t i = (uint32_t)test_random_below(random, N_UNITS), unit = i * 4099 - 7;
        uint32_t extent = naive->extents[i];

        if (alloc_table_find(&naive->table, unit) != extent)
                return false;
        if (grows && !extent) {
                naive->extents[i] = 1 + (uint32_t)test_random_below(random, UINT32_MAX);
                naive->n_entries++;
                if (alloc_table_reserve(&naive->table))
                        return false;
                alloc_table_add(&naive->table, unit, naive->extents[i]);
        } else if (!grows) {
                naive->extents[i] = 0;
                naive->n_entries -= extent != 0;
                if (alloc_table_remove(&naive->table, unit) != extent)
                        return false;
        }
        return naive->table.n_entries == naive->n_entries;
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
                        check(&naive.table);
        }
        check(&naive.table);
        alloc_table_deinit(&naive.table);
}

TESTS_MAIN("alloc_table", .limit_s = UNLIMITED)
