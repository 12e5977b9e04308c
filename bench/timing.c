/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#define N_BATCHES 15

void samples_add(struct samples *samples, double value)
{
        assert(samples->n < REPETITIONS_MAX);
        samples->values[samples->n++] = value;
}

static int compare(const void *one, const void *other)
{
        double a = *(const double *)one, b = *(const double *)other;

        return (a > b) - (a < b);
}

double median_of(double *values, unsigned n)
{
        if (!n)
                return 0;
        qsort(values, n, sizeof(*values), compare);
        return values[n / 2];
}

double samples_median(struct samples *samples)
{
        return median_of(samples->values, samples->n);
}

double samples_least(const struct samples *samples)
{
        double least = samples->n ? samples->values[0] : 0;

        for (unsigned i = 1; i < samples->n; i++)
                least = samples->values[i] < least ? samples->values[i] : least;
        return least;
}

int time_repetition(timed_steps *steps, void *state, unsigned n_steps, double *ret_ns)
{
        struct samples batches = {.n = 0};
        int r = steps(state, n_steps);

        for (unsigned i = 0; i < N_BATCHES && !r; i++) {
                uint64_t start = clock_now_ns();

                r = steps(state, n_steps);
                samples_add(&batches, (double)(clock_now_ns() - start) / n_steps);
        }
        if (!r)
                *ret_ns = samples_median(&batches);
        return r;
}

static void *sleep_for_ever(void *argument)
{
        for (;;)
                (void)pause();
        return argument;
}

int start_sleeper(void)
{
        pthread_t thread;
        int r = pthread_create(&thread, NULL, sleep_for_ever, NULL);

        if (r)
                return -r;
        (void)pthread_detach(thread);
        return 0;
}
