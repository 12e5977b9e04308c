/* SPDX-License-Identifier: Apache-2.0 */
/* patterns: what the allocator holds for programs that are made up to fragment memory. */
#include <stdio.h>

#include "base/err.h"
#include "bench/commands.h"
#include "bench/patterns.h"
#include "bench/replayed.h"

#define N_SEEDS 3

static const unsigned streams[] = {1, 4};

/* The worst of all seeds. */
struct worst {
        double over_live, pinned_over_live, hit_rate, driver_us;
        unsigned n_blocks;
};

static double larger(double a, double b)
{
        return a > b ? a : b;
}

static void see(struct worst *worst, const struct replay_figures *figures)
{
        double hit_rate = replayed_hit_rate(figures);

        worst->over_live = larger(worst->over_live, replayed_over_live(figures));
        worst->pinned_over_live = larger(worst->pinned_over_live,
                                         replayed_pinned_over_live(figures));
        worst->driver_us = larger(worst->driver_us, figures->driver_us);
        if (hit_rate < worst->hit_rate)
                worst->hit_rate = hit_rate;
        if (figures->peak_blocks > worst->n_blocks)
                worst->n_blocks = figures->peak_blocks;
}

static int play(enum pattern pattern, uint64_t seed, const struct replay_options *options,
                struct worst *worst)
{
        struct replay_figures figures;
        struct trace trace;
        int r = pattern_make(pattern, seed, &trace);

        if (r)
                return r;
        r = replayed_play(&trace, options, &figures);
        trace_deinit(&trace);
        if (r)
                return replayed_told(r, pattern_name(pattern));
        see(worst, &figures);
        return 0;
}

static int add_rows(struct rows *rows, enum pattern pattern, unsigned n_streams,
                    const struct worst *worst)
{
        const struct {
                const char *what, *unit;
                double value, bound;
                enum row_limit limit;
        } all[] = {
                {"over_live", "", worst->over_live, 0, ROW_NO_BOUND},
                {"pinned", "", worst->pinned_over_live, 1.7,
                 pattern == PATTERN_SURVIVORS ? ROW_AT_MOST : ROW_NO_BOUND},
                {"hit_rate", "%", worst->hit_rate, 0, ROW_NO_BOUND},
                {"driver_us", "us", worst->driver_us, 0, ROW_NO_BOUND},
                {"blocks", "", worst->n_blocks, 4096, ROW_AT_MOST},
        };
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(all) && !r; i++) {
                char name[ROW_NAME_MAX];

                (void)snprintf(name, sizeof(name), "%s_%u_%s", pattern_name(pattern), n_streams,
                               all[i].what);
                r = replayed_add(rows, name, all[i].unit, all[i].value, all[i].bound, all[i].limit);
        }
        return r;
}

static int measure(const struct options *options, enum pattern pattern, unsigned n_streams,
                   struct rows *rows)
{
        struct replay_options replay = replayed_options(options);
        struct worst worst = {.hit_rate = 100};
        unsigned first = options->first_seed ? options->first_seed : 1;
        unsigned n_seeds = options->effort == EFFORT_FULL ? N_SEEDS : 1;
        int r = 0;

        replay.n_streams = n_streams;
        for (uint64_t seed = first; seed < first + n_seeds && !r; seed++)
                r = play(pattern, seed, &replay, &worst);
        return r ? r : add_rows(rows, pattern, n_streams, &worst);
}

int command_patterns(const struct options *options, struct rows *rows)
{
        int r = 0;

        for (enum pattern pattern = 0; pattern < PATTERN_N && !r; pattern++) {
                for (unsigned i = 0; i < ARRAY_SIZE(streams) && !r; i++)
                        r = measure(options, pattern, streams[i], rows);
        }
        return r;
}
