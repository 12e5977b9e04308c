/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as people see them. */
#include "ctl/output/table.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/output/format.h"
#include "tests/suite.h"

static void add_row(struct table *table, const char *name, const char *size, const char *note)
{
        struct table_row *row = table_add_row(table);

        ck_assert_ptr_nonnull(row);
        (void)snprintf(row->cells[0], TABLE_CELL_MAX, "%s", name);
        (void)snprintf(row->cells[1], TABLE_CELL_MAX, "%s", size);
        (void)snprintf(row->cells[2], TABLE_CELL_MAX, "%s", note);
}

static void expect_text(const struct table *table, const char *wanted)
{
        char *text = NULL;
        size_t n_bytes;
        FILE *file = open_memstream(&text, &n_bytes);

        ck_assert_ptr_nonnull(file);
        table_print(table, file);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_str_eq(text, wanted);
        free(text);
}

TEST(columns_are_counted_in_characters)
{
        struct table table = TABLE_NULL;

        ck_assert_ptr_nonnull(setlocale(LC_CTYPE, "C.UTF-8"));
        table_add_column(&table, "NAME", TABLE_LEFT);
        table_add_column(&table, "SIZE", TABLE_RIGHT);
        table_add_column(&table, "NOTE", TABLE_LEFT);
        add_row(&table, "M\xc3\xbcller", "12", "");
        add_row(&table, "\xe6\xbc\xa2\xe5\xad\x97", "\xc3\xbc", "a note");
        expect_text(&table, "NAME    SIZE  NOTE\n"
                            "M\xc3\xbcller    12  \n"
                            "\xe6\xbc\xa2\xe5\xad\x97       \xc3\xbc  a note\n");
        table_deinit(&table);
}

/* The last column of texts has no trailing blanks. */
TEST(columns_are_as_wide_as_their_widest_cell)
{
        struct table table = TABLE_NULL;

        table_add_column(&table, "NAME", TABLE_LEFT);
        table_add_column(&table, "SIZE", TABLE_RIGHT);
        table_add_column(&table, "NOTE", TABLE_LEFT);
        expect_text(&table, "NAME  SIZE  NOTE\n");
        add_row(&table, "a", "12", "");
        add_row(&table, "longer", "100000", "a longer one");
        expect_text(&table, "NAME      SIZE  NOTE\n"
                            "a           12  \n"
                            "longer  100000  a longer one\n");
        table_deinit(&table);
        ck_assert_ptr_null(table.rows);
}

TEST(numbers_may_stand_last)
{
        struct table table = TABLE_NULL;

        table_add_column(&table, "NAME", TABLE_LEFT);
        table_add_column(&table, "N", TABLE_RIGHT);
        add_row(&table, "a", "12", "");
        expect_text(&table, "NAME   N\n"
                            "a     12\n");
        table_deinit(&table);
}

/* The widest value, and values around a further digit. */
TEST(short_sizes_have_five_characters)
{
        static const struct {
                uint64_t n_bytes;
                const char *text;
        } rows[] = {
                {0, "0"},
                {1, "1B"},
                {1023, "1023B"},
                {KIB, "1.00K"},
                {10 * KIB - 6, "9.99K"},
                {10 * KIB - 5, "10.0K"},
                {100 * MIB - 52 * KIB, "99.9M"},
                {100 * MIB - 51 * KIB, "100M"},
                {GIB - 1, "1024M"},
                {GIB + GIB / 2, "1.50G"},
                {TIB, "1.00T"},
                {UINT64_MAX, "16.0E"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char cell[TABLE_CELL_MAX];

                format_short_bytes(cell, rows[i].n_bytes);
                ck_assert_str_eq(cell, rows[i].text);
                ck_assert_uint_le(strlen(cell), 5);
        }
}

TEST(width_is_of_columns)
{
        ck_assert_ptr_nonnull(setlocale(LC_CTYPE, "C.UTF-8"));
        ck_assert_uint_eq(table_width(""), 0);
        ck_assert_uint_eq(table_width("abc"), 3);
        ck_assert_uint_eq(table_width("M\xc3\xbcller"), 6);
        ck_assert_uint_eq(table_width("\xe6\xbc\xa2\xe5\xad\x97"), 4);
        ck_assert_uint_eq(table_width("u\xcc\x88"), 1);
        ck_assert_uint_eq(table_fit("M\xc3\xbcller", 2), 3);
        ck_assert_uint_eq(table_fit("\xe6\xbc\xa2\xe5\xad\x97", 3), 3);
        ck_assert_uint_eq(table_fit("u\xcc\x88"
                                    "x",
                                    1),
                          3);
        ck_assert_uint_eq(table_fit("abc", 77), 3);
}

TESTS_MAIN("table")
