/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

void table_deinit(struct table *table)
{
        free(table->rows);
        *table = TABLE_NULL;
}

struct table_row *table_add_row(struct table *table)
{
        struct table_row *rows;

        rows = realloc(table->rows, (table->n_rows + 1) * sizeof(*rows));
        if (!rows)
                return NULL;
        table->rows = rows;
        memset(&rows[table->n_rows], 0, sizeof(*rows));
        return &rows[table->n_rows++];
}

void table_add_column(struct table *table, const char *heading, enum table_align align)
{
        assert(table->n_rows <= 1 && table->n_columns < TABLE_COLUMNS_MAX);
        if (table->n_rows == 0 && !table_add_row(table))
                return;
        table->align[table->n_columns] = align;
        (void)snprintf(table->rows[0].cells[table->n_columns], TABLE_CELL_MAX, "%s", heading);
        table->n_columns++;
}

void table_add_columns(struct table *table, const struct table_column *columns, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                table_add_column(table, columns[i].heading, columns[i].align);
}

/* A byte that begins no character of the locale is one column; so is a character whose width is not known. */
static size_t read_character(const char *text, size_t *ret_n_columns)
{
        mbstate_t state = {0};
        wchar_t character;
        size_t n_bytes = mbrtowc(&character, text, strlen(text), &state);
        bool is_one = n_bytes < (size_t)-2;
        int n_columns = is_one ? wcwidth(character) : 1;

        *ret_n_columns = n_columns < 0 ? 1 : (size_t)n_columns;
        return is_one ? n_bytes : 1;
}

/* Bytes up to the first character that needs more than n_columns, and the columns before it. */
static size_t measure(const char *text, size_t n_columns, size_t *ret_n_columns)
{
        size_t n_taken = 0, i = 0;

        while (text[i]) {
                size_t n, n_bytes = read_character(text + i, &n);

                if (n > n_columns - n_taken)
                        break;
                n_taken += n;
                i += n_bytes;
        }
        *ret_n_columns = n_taken;
        return i;
}

size_t table_width(const char *text)
{
        size_t n_columns;

        (void)measure(text, SIZE_MAX, &n_columns);
        return n_columns;
}

size_t table_fit(const char *text, size_t n_columns)
{
        size_t n_taken;

        return measure(text, n_columns, &n_taken);
}

static int column_width(const struct table *table, unsigned column)
{
        size_t width = 0;

        for (unsigned i = 0; i < table->n_rows; i++) {
                size_t n = table_width(table->rows[i].cells[column]);

                if (n > width)
                        width = n;
        }
        return (int)width;
}

void table_put(const char *text, int width, enum table_align align, FILE *file)
{
        int n_blanks = width - (int)table_width(text);

        if (n_blanks < 0)
                n_blanks = 0;
        if (align == TABLE_RIGHT)
                (void)fprintf(file, "%*s%s", n_blanks, "", text);
        else
                (void)fprintf(file, "%s%*s", text, n_blanks, "");
}

static void print_row(const struct table *table, const struct table_row *row, const int *widths,
                      FILE *file)
{
        for (unsigned column = 0; column < table->n_columns; column++) {
                bool is_last = column + 1 == table->n_columns;

                (void)fputs(column ? "  " : "", file);
                if (is_last && table->align[column] == TABLE_LEFT)
                        (void)fputs(row->cells[column], file);
                else
                        table_put(row->cells[column], widths[column], table->align[column], file);
        }
        (void)fputc('\n', file);
}

void table_print(const struct table *table, FILE *file)
{
        int widths[TABLE_COLUMNS_MAX];

        for (unsigned column = 0; column < table->n_columns; column++)
                widths[column] = column_width(table, column);
        for (unsigned i = 0; i < table->n_rows; i++)
                print_row(table, &table->rows[i], widths, file);
}
