/* SPDX-License-Identifier: Apache-2.0 */
/* How a figure is had on a machine that does other things as well.
 *
 * A batch is some thousand steps, well below a time slice, so that most batches are not interrupted. A repetition is
 * the median of its batches. Whoever compares takes repetitions of each side by turns. Beside other allocators, of
 * threads, and of many that are live beside few, the fastest of them count: what disturbs adds to all, and most to who
 * has most in a processor's caches. Elsewhere their medians do: what disturbs for long disturbs both sides. */
#pragma once

#include <stdint.h>

#define REPETITIONS_MAX 31

struct samples {
        double values[REPETITIONS_MAX];
        unsigned n;
};

void samples_add(struct samples *samples, double value);

/* Sorts them. 0 if there are none. */
double samples_median(struct samples *samples);

/* 0 if there are none. */
double samples_least(const struct samples *samples);

/* The same of any values. */
double median_of(double *values, unsigned n);

/* Does n_steps of something. */
typedef int timed_steps(void *state, unsigned n_steps);

/* One repetition: nanoseconds a step. The first batch warms up. */
int time_repetition(timed_steps *steps, void *state, unsigned n_steps, double *ret_ns);

/* A second thread of the process, which sleeps until the process ends: allocators are cheaper while there is none. */
int start_sleeper(void);
