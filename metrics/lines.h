/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of Prometheus's text: families, samples, labels, whatever is in their values. Pure.
 *
 * Two formats, which differ in how counters and units are announced: OpenMetrics 1.0.0, and the older
 * text format 0.0.4 that node_exporter's textfile collector and promtool read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum metrics_format { METRICS_OPENMETRICS, METRICS_TEXT };

enum metric_form { METRIC_GAUGE, METRIC_COUNTER, METRIC_STATES };

#define METRIC_NAME_MAX 64

/* What stands for a byte that is no printable ASCII. */
#define METRIC_UNPRINTABLE '?'

struct lines {
        FILE *file;
        enum metrics_format format;
        enum metric_form form;
        bool has_labels;            /* the sample under way */
        char name[METRIC_NAME_MAX]; /* of the family under way, without _total */
};

/* Begins a family. `unit`: "bytes", "seconds", which the name then ends with, or "". The name is
 * without _total, which counters get. */
void lines_family(struct lines *lines, enum metric_form form, const char *unit, const char *text,
                  const char *name_format, ...) PRINTF_LIKE(5, 6);

/* A sample of the family: begun, its labels, its value. */
void lines_sample(struct lines *lines);
void lines_label(struct lines *lines, const char *key, const char *value);
void lines_label_number(struct lines *lines, const char *key, uint64_t value);
void lines_value(struct lines *lines, uint64_t value);
/* Whole numbers of such a fraction of a second: 3 for ms, 9 for ns. */
void lines_value_seconds(struct lines *lines, uint64_t value, unsigned n_digits);

/* Nothing comes after it. */
void lines_end(struct lines *lines);

/* The byte as it stands in a label's value, before it is escaped. */
char lines_printable(char byte);
