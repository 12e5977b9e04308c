/* SPDX-License-Identifier: Apache-2.0 */
/* trace --real: a trace through the library and gpumemd, each figure beside the replay's for the same trace. The
 * library's budget depends on the clock, so lines keep the pace that the replay assumes. No work is
 * submitted to the streams, so the replay has no lag. Both are looked at every few lines, or at each: what
 * is summed is over lines, not over seconds. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/commands.h"
#include "bench/real.h"
#include "bench/replayed.h"
#include "bench/target.h"

#define LINES_AT_ONCE 32

/* The library has a thread that looks when it gets to it, and the replay one that is never late: 80 runs on
 * two cores had 0.95 to 1.10 of the replay's. */
#define PINNED_BOUND 1.15

struct real {
        struct target *target;
        struct trace trace;
        void **pointers; /* by id */
        CUstream *streams;
        unsigned n_streams;
        bool is_dealt; /* to the streams, by id */
        double us_per_line;
        double sum_live, sum_pinned;
        uint64_t peak_blocks;
        struct gpumem_stats stats; /* of the last look */
};

static int open_streams(struct real *real)
{
        int r = 0;

        real->pointers = calloc(real->trace.n_ids, sizeof(*real->pointers));
        real->streams = calloc(real->n_streams, sizeof(CUstream));
        if (!real->pointers || !real->streams)
                return -ENOMEM;
        for (unsigned i = 0; i < real->n_streams && !r; i++)
                r = target_check_cuda(CUDA_CALL(&real->target->cuda, cuStreamCreate,
                                                &real->streams[i], CU_STREAM_NON_BLOCKING));
        return r;
}

static CUstream stream_of(const struct real *real, const struct trace_event *event)
{
        return real->streams[(real->is_dealt ? event->id : event->stream) % real->n_streams];
}

static int play_line(struct real *real, const struct trace_event *event)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = stream_of(real, event),
                                         .n_bytes = event->n_bytes};
        void **pointer = &real->pointers[event->id];
        int r;

        if (event->kind == TRACE_ALLOC)
                return target_check("an allocation",
                                    gpumem_alloc(real->target->client, &request, pointer));
        r = gpumem_free(real->target->client, *pointer, request.stream);
        *pointer = NULL;
        return target_check("a free", r);
}

/* What is cached in the process can be taken by others at any time, as the replay's idle list can. */
static int look(struct real *real)
{
        struct gpumem_stats *stats = &real->stats;
        int r = target_stats(real->target, stats);

        if (r)
                return r;
        real->sum_live += (double)stats->n_requested_bytes;
        real->sum_pinned += (double)(stats->n_reserved_bytes - stats->n_cached_bytes);
        if (stats->n_blocks > real->peak_blocks)
                real->peak_blocks = stats->n_blocks;
        return 0;
}

/* Sleeps: spinning would take the CPU from the daemon and from the library's thread. */
static void keep_pace(const struct real *real, uint64_t start_ns, size_t n_lines)
{
        uint64_t due_ns = start_ns + (uint64_t)((double)n_lines * real->us_per_line * 1000);
        struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000),
                               .tv_nsec = (long)(due_ns % 1000000000)};

        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static int play(struct real *real)
{
        uint64_t start_ns = clock_now_ns();
        int r = 0;

        for (size_t i = 0; i < real->trace.n_events && !r; i++) {
                if (i % LINES_AT_ONCE == 0) {
                        keep_pace(real, start_ns, i);
                        r = look(real);
                }
                if (!r)
                        r = play_line(real, &real->trace.events[i]);
        }
        return r ? r : look(real);
}

/* A later command of this process begins without the trace's memory. */
static void close_streams(struct real *real)
{
        for (uint32_t id = 0; real->pointers && id < real->trace.n_ids; id++) {
                if (real->pointers[id])
                        (void)gpumem_free(real->target->client, real->pointers[id], NULL);
        }
        for (unsigned i = 0; real->streams && i < real->n_streams; i++) {
                if (real->streams[i])
                        (void)CUDA_CALL(&real->target->cuda, cuStreamDestroy, real->streams[i]);
        }
        free(real->pointers);
        free(real->streams);
}

static int add_beside(struct rows *rows, const char *name, const char *unit, double value,
                      double baseline, double bound)
{
        struct row row = {.value = value,
                          .baseline = baseline,
                          .bound = bound,
                          .limit = bound > 0 ? ROW_AT_MOST : ROW_NO_BOUND};

        (void)snprintf(row.name, sizeof(row.name), "%s", name);
        (void)snprintf(row.unit, sizeof(row.unit), "%s", unit);
        return rows_add(rows, &row);
}

static int add_figures(const struct real *real, const struct replay_figures *figures,
                       struct rows *rows)
{
        const struct gpumem_stats *stats = &real->stats;
        uint64_t n = stats->n_hits + stats->n_misses;
        const struct {
                const char *name, *unit;
                double value, baseline, bound;
        } all[] = {
                {"real_pinned_over_live", "",
                 real->sum_live > 0 ? real->sum_pinned / real->sum_live : 1,
                 replayed_pinned_over_live(figures), PINNED_BOUND},
                {"real_peak_reserved", "bytes", (double)stats->n_reserved_peak_bytes,
                 (double)figures->peak_reserved, 0},
                {"real_hit_rate", "%", n ? 100 * (double)stats->n_hits / (double)n : 100,
                 replayed_hit_rate(figures), 0},
                {"real_misses", "", (double)stats->n_misses, (double)figures->misses, 0},
                {"real_peak_blocks", "", (double)real->peak_blocks, figures->peak_blocks, 0},
        };
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(all) && !r; i++)
                r = add_beside(rows, all[i].name, all[i].unit, all[i].value, all[i].baseline,
                               all[i].bound);
        return r;
}

static int measure(struct target *target, const struct options *options, struct rows *rows)
{
        struct replay_options replay = replayed_options(options);
        struct real real = {.target = target,
                            .is_dealt = replay.n_streams != 0,
                            .us_per_line = replay.us_per_line};
        struct replay_figures figures;
        int r = replayed_read(options->files[0], &real.trace);

        if (r)
                return r;
        real.n_streams = real.is_dealt ? replay.n_streams : real.trace.n_streams;
        replay.lag_us = 0;
        replay.memory = REPLAY_DEVICE;
        r = replayed_told(replayed_play(&real.trace, &replay, &figures), options->files[0]);
        if (!r)
                r = open_streams(&real);
        if (!r)
                r = play(&real);
        close_streams(&real);
        trace_deinit(&real.trace);
        return r ? r : add_figures(&real, &figures, rows);
}

int real_measure(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure);
}
