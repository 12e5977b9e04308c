/* SPDX-License-Identifier: Apache-2.0 */
/* trace and traces: what the allocator holds for traces of real programs. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/commands.h"
#include "bench/real.h"
#include "bench/replay.h"
#include "bench/replayed.h"

struct replay_options replayed_options(const struct options *options)
{
        return (struct replay_options){
                .memory = options->memory,
                .n_streams = options->n_streams,
                .n_slots = options->n_slots ? options->n_slots : NODE_N_SLOTS,
                .lag_us = options->lag_ms * 1000,
                .us_per_line = options->us_per_line > 0 ? options->us_per_line : REPLAY_US_PER_LINE,
                .n_pool_bytes = REPLAY_POOL_BYTES};
}

static const char *text_of(int r)
{
        if (r == -E2BIG)
                return "it allocates more than a device has";
        return r == -EMFILE ? "its leases take more slots than its board has" : strerror(-r);
}

int replayed_told(int r, const char *file)
{
        if (r < 0)
                (void)fprintf(stderr, "gpumem-bench: %s: %s\n", file, text_of(r));
        return r;
}

/* A trace without allocations would pass every bound. */
int replayed_read(const char *file, struct trace *ret_trace)
{
        int r = trace_read(file, ret_trace);

        if (r || ret_trace->n_events)
                return r;
        (void)fprintf(stderr, "gpumem-bench: %s: no allocations in the trace\n", file);
        trace_deinit(ret_trace);
        return -ENODATA;
}

int replayed_play(const struct trace *trace, const struct replay_options *options,
                  struct replay_figures *ret_figures)
{
        struct replay *replay;
        int r = replay_new(trace, options, &replay);

        if (r)
                return r;
        while (!r)
                r = replay_step(replay);
        replay_get(replay, ret_figures);
        (void)replay_free(replay);
        return r < 0 ? r : 0;
}

static int run(const char *file, const struct replay_options *options,
               struct replay_figures *ret_figures)
{
        struct trace trace;
        int r = replayed_read(file, &trace);

        if (r)
                return r;
        r = replayed_play(&trace, options, ret_figures);
        trace_deinit(&trace);
        return replayed_told(r, file);
}

double replayed_over_live(const struct replay_figures *figures)
{
        return figures->peak_live ? (double)figures->peak_reserved / (double)figures->peak_live : 1;
}

double replayed_pinned_over_live(const struct replay_figures *figures)
{
        return figures->sum_live > 0 ? figures->sum_pinned / figures->sum_live : 1;
}

double replayed_hit_rate(const struct replay_figures *figures)
{
        uint64_t n = figures->hits + figures->misses;

        return n ? 100 * (double)figures->hits / (double)n : 100;
}

int replayed_add(struct rows *rows, const char *name, const char *unit, double value, double bound,
                 enum row_limit limit)
{
        struct row row = {.value = value, .bound = bound, .limit = limit};

        (void)snprintf(row.name, sizeof(row.name), "%s", name);
        (void)snprintf(row.unit, sizeof(row.unit), "%s", unit);
        return rows_add(rows, &row);
}

static int add_figures(struct rows *rows, const struct replay_figures *figures)
{
        const struct {
                const char *name, *unit;
                double value, bound;
                enum row_limit limit;
        } all[] = {
                {"peak_live", "bytes", (double)figures->peak_live, 0, ROW_NO_BOUND},
                {"peak_reserved", "bytes", (double)figures->peak_reserved, 0, ROW_NO_BOUND},
                {"reserved_over_live", "", replayed_over_live(figures), 1.2, ROW_AT_MOST},
                {"pinned_over_live", "", replayed_pinned_over_live(figures), 0, ROW_NO_BOUND},
                {"hit_rate", "%", replayed_hit_rate(figures), 95, ROW_AT_LEAST},
                {"leases", "", (double)figures->leases, 0, ROW_NO_BOUND},
                {"returns", "", (double)figures->returns, 0, ROW_NO_BOUND},
                {"moves", "", (double)figures->moves, 0, ROW_NO_BOUND},
                {"peak_blocks", "", figures->peak_blocks, 4096, ROW_AT_MOST},
                {"waits", "", (double)figures->waits, 0, ROW_NO_BOUND},
                {"wait_us", "us", figures->wait_us, 0, ROW_NO_BOUND},
                {"driver_us", "us", figures->driver_us, 0, ROW_NO_BOUND},
        };
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(all) && !r; i++)
                r = replayed_add(rows, all[i].name, all[i].unit, all[i].value, all[i].bound,
                                 all[i].limit);
        return r;
}

int command_trace(const struct options *options, struct rows *rows)
{
        struct replay_options replay = replayed_options(options);
        struct replay_figures figures;
        int r = run(options->files[0], &replay, &figures);

        if (!r)
                r = add_figures(rows, &figures);
        return r || !options->run_real ? r : real_measure(options, rows);
}

/* Makes WHAT_NAME from a file's name without folder and endings. */
static void name_row(const char *file, const char *what, char name[static ROW_NAME_MAX])
{
        const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
        size_t n = strcspn(base, ".");

        (void)snprintf(name, ROW_NAME_MAX, "%s_%.*s", what, (int)(n < 24 ? n : 24), base);
}

/* Replays all files with the same options. */
static int run_all(const struct options *options, const struct replay_options *replay,
                   struct replay_figures figures[static FILES_MAX], double *ret_mean)
{
        double sum = 0;
        int r = 0;

        for (unsigned i = 0; i < options->n_files && !r; i++) {
                r = run(options->files[i], replay, &figures[i]);
                sum += log(replayed_over_live(&figures[i]));
        }
        *ret_mean = exp(sum / options->n_files);
        return r;
}

static int add_each(const struct options *options, struct rows *rows,
                    const struct replay_figures *figures)
{
        int r = 0;

        for (unsigned i = 0; i < options->n_files && !r; i++) {
                char name[ROW_NAME_MAX];

                name_row(options->files[i], "reserved_over_live", name);
                r = replayed_add(rows, name, "", replayed_over_live(&figures[i]), 1.2, ROW_AT_MOST);
                name_row(options->files[i], "hit_rate", name);
                if (!r)
                        r = replayed_add(rows, name, "%", replayed_hit_rate(&figures[i]), 95,
                                         ROW_AT_LEAST);
        }
        return r;
}

int command_traces(const struct options *options, struct rows *rows)
{
        static const struct {
                const char *name;
                unsigned n_streams;
                double lag_us, bound;
        } ways[] = {
                {"reserved_over_live_mean", 0, 0, 1.1},
                {"reserved_over_live_4_streams", 4, 0, 1.2},
                {"reserved_over_live_1ms_lag", 0, 1000, 1.2},
                {"reserved_over_live_10ms_lag", 0, 10000, 1.2},
                {"reserved_over_live_4_streams_10ms_lag", 4, 10000, 1.2},
        };
        struct replay_figures figures[FILES_MAX];
        double mean;
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(ways) && !r; i++) {
                struct replay_options replay = {.n_streams = ways[i].n_streams,
                                                .lag_us = ways[i].lag_us,
                                                .us_per_line = REPLAY_US_PER_LINE,
                                                .n_pool_bytes = REPLAY_POOL_BYTES};

                r = run_all(options, &replay, figures, &mean);
                if (!r && i == 0)
                        r = add_each(options, rows, figures);
                if (!r)
                        r = replayed_add(rows, ways[i].name, "", mean, ways[i].bound, ROW_AT_MOST);
        }
        return r;
}
