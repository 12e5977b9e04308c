/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rows.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/output/table.h"

#define NUMBER_TEXT_MAX 32

int rows_add(struct rows *rows, const struct row *row)
{
        struct row *more = reallocarray(rows->rows, rows->n + 1, sizeof(*more));

        if (!more)
                return -ENOMEM;
        rows->rows = more;
        more[rows->n++] = *row;
        return 0;
}

void rows_deinit(struct rows *rows)
{
        free(rows->rows);
        *rows = ROWS_NULL;
}

/* 0 without a baseline. */
static double ratio_of(const struct row *row)
{
        return row->baseline > 0 ? row->value / row->baseline : 0;
}

/* A row without a bound passes, and so does one that was not measured. */
static bool passes(const struct row *row)
{
        double figure = row->baseline > 0 ? ratio_of(row) : row->value;

        if (row->note[0] || row->limit == ROW_NO_BOUND)
                return true;
        return row->limit == ROW_AT_MOST ? figure <= row->bound : figure >= row->bound;
}

unsigned rows_count_missed(const struct rows *rows)
{
        unsigned n = 0;

        for (unsigned i = 0; i < rows->n; i++)
                n += !passes(&rows->rows[i]);
        return n;
}

/* Chooses the unit with one to three digits before the point. */
static void format_time(double ns, size_t n_text, char *text)
{
        static const char *const units[] = {"ns", "us", "ms", "s"};
        unsigned unit = 0;

        while (fabs(ns) >= 1000 && unit + 1 < ARRAY_SIZE(units)) {
                ns /= 1000;
                unit++;
        }
        (void)snprintf(text, n_text, "%.1f %s", ns, units[unit]);
}

/* Prints small numbers with three digits, others as whole numbers. */
static void format_number(double number, char text[static NUMBER_TEXT_MAX])
{
        (void)snprintf(text, NUMBER_TEXT_MAX, fabs(number) < 1000 ? "%.3g" : "%.0f", number);
}

void row_format_value(double value, const char *unit, size_t n_text, char *text)
{
        char size[SIZE_TEXT_MAX], number[NUMBER_TEXT_MAX];

        if (strcmp(unit, "ns") == 0)
                format_time(value, n_text, text);
        else if (strcmp(unit, "us") == 0)
                format_time(1000 * value, n_text, text);
        else if (strcmp(unit, "bytes") == 0)
                (void)snprintf(text, n_text, "%s", size_format((uint64_t)value, size));
        else {
                format_number(value, number);
                (void)snprintf(text, n_text, "%s%s%.8s", number, *unit ? " " : "", unit);
        }
}

static const char *const limit_texts[] = {
        [ROW_NO_BOUND] = "", [ROW_AT_MOST] = "<=", [ROW_AT_LEAST] = ">="};

static int add_to_table(struct table *table, const struct row *row)
{
        struct table_row *cells = table_add_row(table);

        if (!cells)
                return -ENOMEM;
        (void)snprintf(cells->cells[0], TABLE_CELL_MAX, "%s", row->name);
        if (row->note[0]) {
                (void)snprintf(cells->cells[1], TABLE_CELL_MAX, "-");
                (void)snprintf(cells->cells[5], TABLE_CELL_MAX, "%.*s", TABLE_CELL_MAX - 1,
                               row->note);
                return 0;
        }
        row_format_value(row->value, row->unit, TABLE_CELL_MAX, cells->cells[1]);
        if (row->baseline > 0) {
                row_format_value(row->baseline, row->unit, TABLE_CELL_MAX, cells->cells[2]);
                (void)snprintf(cells->cells[3], TABLE_CELL_MAX, "%.2f", ratio_of(row));
        }
        if (row->limit != ROW_NO_BOUND) {
                (void)snprintf(cells->cells[4], TABLE_CELL_MAX, "%s %.4g", limit_texts[row->limit],
                               row->bound);
                (void)snprintf(cells->cells[5], TABLE_CELL_MAX, "%s",
                               passes(row) ? "pass" : "MISS");
        }
        return 0;
}

int rows_print_table(const struct rows *rows, FILE *file)
{
        CLEANUP(table_deinit)
        struct table table = TABLE_NULL;
        int r = 0;

        if (!rows->n)
                return 0;
        table_add_column(&table, "what", TABLE_LEFT);
        table_add_column(&table, "value", TABLE_RIGHT);
        table_add_column(&table, "baseline", TABLE_RIGHT);
        table_add_column(&table, "ratio", TABLE_RIGHT);
        table_add_column(&table, "bound", TABLE_RIGHT);
        table_add_column(&table, "", TABLE_LEFT);
        for (unsigned i = 0; i < rows->n && !r; i++)
                r = add_to_table(&table, &rows->rows[i]);
        if (!r)
                table_print(&table, file);
        return r;
}

/* jansson cannot represent an infinite or undefined number. */
static json_t *real_or_null(double value, int is_there)
{
        return is_there ? json_real(value) : json_null();
}

static json_t *row_to_json(const struct row *row)
{
        int is_there = !row->note[0];

        return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:s?}", "name", row->name, "value",
                         real_or_null(row->value, is_there), "unit", row->unit, "baseline",
                         real_or_null(row->baseline, row->baseline > 0), "ratio",
                         real_or_null(ratio_of(row), row->baseline > 0), "bound",
                         real_or_null(row->bound, row->limit != ROW_NO_BOUND), "pass",
                         is_there ? json_boolean(passes(row)) : json_null(), "note",
                         is_there ? NULL : row->note);
}

int rows_print_json(const struct rows *rows, FILE *file)
{
        json_t *array = json_array();
        int r = array ? 0 : -ENOMEM;

        for (unsigned i = 0; i < rows->n && !r; i++)
                r = json_array_append_new(array, row_to_json(&rows->rows[i])) ? -ENOMEM : 0;
        if (!r && json_dumpf(array, file, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
                r = -EIO;
        json_decref(array);
        if (!r)
                (void)fputc('\n', file);
        return r;
}
