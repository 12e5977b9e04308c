/* SPDX-License-Identifier: Apache-2.0 */
/* Measures on a machine that also does other things.
 *
 * A batch is some thousand steps, well below a time slice, so that most batches are not interrupted. A
 * repetition is the median of its batches. A comparison takes repetitions of each side by turns. The
 * fastest repetitions count beside other allocators, for threads, and for many live allocations beside few:
 * a disturbance only adds time, and most to the side that uses the caches most. Their medians are rows of their
 * own. Elsewhere the medians count: a long disturbance affects both sides. */
#pragma once

#include <stdint.h>

#define REPETITIONS_MAX 31

struct samples {
        double values[REPETITIONS_MAX];
        unsigned n;
};

void samples_add(struct samples *samples, double value);

/* Sorts the samples. 0 if there are none. */
double samples_median(struct samples *samples);

/* 0 if there are none. */
double samples_least(const struct samples *samples);

/* The median of any values. */
double median_of(double *values, unsigned n);

/* Does n_steps of a pattern. */
typedef int timed_steps(void *state, unsigned n_steps);

/* Does one repetition, and times it. */
typedef int timed_repetition(void *state, double *ret_ns);

/* One repetition: nanoseconds for each step. The first batch warms up. */
int time_repetition(timed_steps *steps, void *state, unsigned n_steps, double *ret_ns);

/* Starts a second thread, which sleeps until the process ends: allocators are cheaper in a process with one
 * thread. */
int start_sleeper(void);
