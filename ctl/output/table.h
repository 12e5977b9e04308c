/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as their widest cell, numbers to the right. */
#pragma once

#include <stdio.h>

#define TABLE_COLUMNS_MAX 32
#define TABLE_CELL_MAX    72

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_row {
        char cells[TABLE_COLUMNS_MAX][TABLE_CELL_MAX];
};

struct table {
        unsigned n_columns;
        unsigned n_rows;
        enum table_align align[TABLE_COLUMNS_MAX];
        struct table_row *rows; /* the first is the heading */
};

#define TABLE_NULL ((struct table){.n_columns = 0})

void table_deinit(struct table *table);

struct table_column {
        const char *heading;
        enum table_align align;
};

/* Columns are added before rows. */
void table_add_column(struct table *table, const char *heading, enum table_align align);
void table_add_columns(struct table *table, const struct table_column *columns, unsigned n);

/* A new row of empty cells, valid until the next is added; NULL without memory. */
struct table_row *table_add_row(struct table *table);

void table_print(const struct table *table, FILE *file);

/* A printable text, with blanks up to the width, in columns. */
void table_put(const char *text, int width, enum table_align align, FILE *file);

/* Columns of a terminal that the text takes in the program's locale; how many of its bytes fit into so many columns. */
size_t table_width(const char *text);
size_t table_fit(const char *text, size_t n_columns);
