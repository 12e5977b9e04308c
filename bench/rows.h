/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a benchmark: one row for each number, mostly with a baseline of the same run. One thread. */
#pragma once

#include <stdio.h>

#define ROW_NAME_MAX 48
#define ROW_UNIT_MAX 8
#define ROW_NOTE_MAX 96

enum row_limit { ROW_NO_BOUND, ROW_AT_MOST, ROW_AT_LEAST };

/* A row has no pointers, so it can go through a pipe. */
struct row {
        char name[ROW_NAME_MAX];
        double value;
        char unit[ROW_UNIT_MAX]; /* "ns", "us", "ms", "bytes", "GB/s", "%", or "" for a number */
        double baseline;         /* in the same unit; 0: none */
        double bound;            /* for the ratio; for the value if there is no baseline */
        enum row_limit limit;
        char note[ROW_NOTE_MAX]; /* why it was not measured; "": it was */
};

struct rows {
        struct row *rows;
        unsigned n;
};

#define ROWS_NULL ((struct rows){.n = 0})

/* -ENOMEM. */
int rows_add(struct rows *rows, const struct row *row);
void rows_deinit(struct rows *rows);

/* The number of rows that miss their bound. */
unsigned rows_count_missed(const struct rows *rows);

/* Formats a value as the table shows it. */
void row_format_value(double value, const char *unit, size_t n_text, char *text);

/* For people; prints nothing if there are no rows. */
int rows_print_table(const struct rows *rows, FILE *file);

/* For programs: an array of {name, value, unit, baseline, ratio, bound, pass, note}, with null for missing
 * values. */
int rows_print_json(const struct rows *rows, FILE *file);
