/* SPDX-License-Identifier: Apache-2.0 */
/* A pair of allocation and free after each pause of 1, 10 and 100 us, as in a program that works between its calls;
 * beside the same pairs without pauses. Meanwhile the library's own thread may look, budgets fade, and caches stay. */
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/hot.h"
#include "bench/loop.h"
#include "bench/target.h"

#define N_STEPS_FULL  2000
#define N_STEPS_QUICK 100

/* In us. Without a pause the clock is read just as often. */
static const unsigned pauses[] = {0, 1, 10, 100};

#define N_PAUSES ARRAY_SIZE(pauses)

static void wait_until(uint64_t ns)
{
        while (clock_now_ns() < ns)
                ;
}

/* The least that reading the clock twice takes. */
static double clock_ns(void)
{
        uint64_t least = UINT64_MAX;

        for (unsigned i = 0; i < 1000; i++) {
                uint64_t start = clock_now_ns(), n = clock_now_ns() - start;

                least = n < least ? n : least;
        }
        return (double)least;
}

/* The median of single pairs: a mean would count each interruption of a pause's length. */
static int time_pairs(struct hot *hot, unsigned pause_us, unsigned n_steps, double *ret_ns)
{
        static double values[N_STEPS_FULL];
        double of_clock = clock_ns();
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                uint64_t start;

                wait_until(clock_now_ns() + pause_us * UINT64_C(1000));
                start = clock_now_ns();
                r = hot_steps(hot, 1);
                values[i] = (double)(clock_now_ns() - start) - of_clock;
        }
        if (!r)
                *ret_ns = median_of(values, n_steps);
        return r;
}

/* The fastest repetitions, and the medians beside them. */
static int add_rows(struct samples samples[N_PAUSES], struct rows *rows)
{
        int r = 0;

        for (unsigned i = 0; i < N_PAUSES && !r; i++) {
                struct row row = {.value = samples_least(&samples[i]),
                                  .baseline = samples_least(&samples[0]),
                                  .unit = "ns"};
                struct row median = {.value = samples_median(&samples[i]),
                                     .baseline = samples_median(&samples[0]),
                                     .unit = "ns"};

                (void)snprintf(row.name, ROW_NAME_MAX, "paced_%uus", pauses[i]);
                (void)snprintf(median.name, ROW_NAME_MAX, "paced_%uus_median", pauses[i]);
                r = rows_add(rows, &row);
                if (!r)
                        r = rows_add(rows, &median);
        }
        return r;
}

static int measure(struct target *target, const struct options *options, struct rows *rows)
{
        unsigned n_steps = options->effort == EFFORT_FULL ? N_STEPS_FULL : N_STEPS_QUICK;
        struct samples samples[N_PAUSES] = {{.n = 0}};
        struct hot hot;
        int r = loop_measure(target, options, rows);

        if (!r)
                r = start_sleeper();
        if (!r)
                r = hot_init(target, 0, HOT_PLAIN, &hot);
        if (r)
                return r;
        for (unsigned i = 0; i < count_repetitions(options) && !r; i++) {
                for (unsigned k = 0; k < N_PAUSES && !r; k++) {
                        double ns;

                        r = time_pairs(&hot, pauses[k], n_steps, &ns);
                        if (!r)
                                samples_add(&samples[k], ns);
                }
        }
        if (!r)
                r = hot_deinit(&hot);
        return r ? r : add_rows(samples, rows);
}

int command_paced(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure);
}
