/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark found out: one row a figure, most of them beside a baseline of the same run. One thread. */
#pragma once

#include <stdio.h>

#define ROW_NAME_MAX 48
#define ROW_UNIT_MAX 8
#define ROW_NOTE_MAX 96

enum row_limit { ROW_NO_BOUND, ROW_AT_MOST, ROW_AT_LEAST };

/* A row can go through a pipe as it is. */
struct row {
        char name[ROW_NAME_MAX];
        double value;
        char unit[ROW_UNIT_MAX]; /* "ns", "us", "ms", "bytes", "GB/s", "%", or "" for a number */
        double baseline;         /* in the same unit; 0: there is none */
        double bound;            /* on the ratio; on the value if there is no baseline */
        enum row_limit limit;
        char note[ROW_NOTE_MAX]; /* why it could not be measured; "": it was */
};

struct rows {
        struct row *rows;
        unsigned n;
};

#define ROWS_NULL ((struct rows){.n = 0})

/* -ENOMEM. */
int rows_add(struct rows *rows, const struct row *row);
void rows_deinit(struct rows *rows);

/* How many miss their bound. */
unsigned rows_count_missed(const struct rows *rows);

/* A value as the table shows it. */
void row_format_value(double value, const char *unit, size_t n_text, char *text);

/* For people; nothing where there are no rows. */
int rows_print_table(const struct rows *rows, FILE *file);

/* For programs: an array of {name, value, unit, baseline, ratio, bound, pass, note}, with null for what a row does not
 * have. */
int rows_print_json(const struct rows *rows, FILE *file);
