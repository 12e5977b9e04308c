/* SPDX-License-Identifier: Apache-2.0 */
/* Writes Prometheus's text format: families, samples and labels with any values. Pure.
 *
 * Two formats, which differ in the lines about counters and units: OpenMetrics 1.0.0, and the older text
 * format 0.0.4, which node_exporter's textfile collector and promtool read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum metrics_format { METRICS_OPENMETRICS, METRICS_TEXT };

enum metric_form { METRIC_GAUGE, METRIC_COUNTER, METRIC_STATES };

#define METRIC_NAME_MAX 64

/* Replaces bytes that are not printable ASCII. */
#define METRIC_UNPRINTABLE '?'

struct lines {
        FILE *file;
        enum metrics_format format;
        enum metric_form form;
        bool has_labels;            /* of the current sample */
        char name[METRIC_NAME_MAX]; /* of the current family, without _total */
};

/* Begins a family. `unit` is "bytes", "seconds" (the name then ends with it) or "". `name` is without
 * _total, which the function adds for counters. */
void lines_family(struct lines *lines, enum metric_form form, const char *unit, const char *text,
                  const char *name_format, ...) PRINTF_LIKE(5, 6);

/* Begins a sample of the family; its labels and its value follow. */
void lines_sample(struct lines *lines);
void lines_label(struct lines *lines, const char *key, const char *value);
void lines_label_number(struct lines *lines, const char *key, uint64_t value);
void lines_value(struct lines *lines, uint64_t value);
/* Writes a whole number of decimal fractions of a second: n_digits is 3 for ms, 9 for ns. */
void lines_value_seconds(struct lines *lines, uint64_t value, unsigned n_digits);

/* Writes the end marker. Nothing may follow. */
void lines_end(struct lines *lines);

/* The byte as it appears in a label's value, before escaping. */
char lines_printable(char byte);
