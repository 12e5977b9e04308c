/* SPDX-License-Identifier: Apache-2.0 */
/* node: several processes at once, each with a trace, under one daemon. Each process takes the same time
 * and begins at its own offset in it. The offsets are shifted from run to run, and the worst run counts. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/commands.h"
#include "bench/replay.h"
#include "bench/replayed.h"

#define N_SHIFTS 8

/* All processes reach a sample before one of them goes on. */
#define N_SAMPLES 8192

struct process {
        struct trace trace;
        size_t begin; /* samples */
        size_t next;  /* event */
        struct member *member;
        struct replay *replay; /* NULL: not begun, or over */
};

struct processes {
        const struct options *options;
        unsigned n;
        struct process *all;
        double us_per_sample;
        struct node *node;
        uint64_t most_live, most_reserved;
        double least_hit_rate;
};

static int begin(struct processes *processes, struct process *process)
{
        struct replay_options options = replayed_options(processes->options);
        int r = node_add_member(processes->node, options.n_slots, &process->member);

        options.member = process->member;
        options.us_per_line = processes->us_per_sample * N_SAMPLES /
                              (double)process->trace.n_events;
        process->next = 0;
        return r ? r : replay_new(&process->trace, &options, &process->replay);
}

static void end(struct processes *processes, struct process *process)
{
        struct replay_figures figures;

        if (!process->replay)
                return;
        replay_get(process->replay, &figures);
        processes->least_hit_rate = fmin(processes->least_hit_rate, replayed_hit_rate(&figures));
        process->replay = replay_free(process->replay);
        member_leave(process->member);
}

static void look(struct processes *processes)
{
        uint64_t n_live = 0, n_reserved = node_reserved(processes->node);

        for (unsigned i = 0; i < processes->n; i++) {
                if (processes->all[i].replay)
                        n_live += replay_live(processes->all[i].replay);
        }
        if (n_live > processes->most_live)
                processes->most_live = n_live;
        if (n_reserved > processes->most_reserved)
                processes->most_reserved = n_reserved;
}

/* Tells every process the daemon's messages before the next line: a line that leases takes many times as
 * long as others. */
static void hear(struct processes *processes)
{
        for (unsigned i = 0; i < processes->n; i++) {
                if (processes->all[i].replay)
                        replay_hear(processes->all[i].replay);
        }
}

/* Plays the process's events of one sample. */
static int step(struct processes *processes, struct process *process, size_t at)
{
        size_t n_events = process->trace.n_events;
        int r = 0;

        if (at < process->begin || at - process->begin > N_SAMPLES)
                return 0;
        if (at == process->begin)
                r = begin(processes, process);
        while (!r && process->next < (at - process->begin + 1) * n_events / N_SAMPLES &&
               process->next < n_events) {
                r = replay_step(process->replay);
                process->next++;
                look(processes);
                hear(processes);
        }
        if (!r && at - process->begin == N_SAMPLES)
                end(processes, process);
        return r;
}

static int run_shift(struct processes *processes, unsigned shift, double *ret_ratio)
{
        int r = node_new(REPLAY_POOL_BYTES, &processes->node);

        if (r)
                return r;
        processes->most_live = processes->most_reserved = 0;
        for (unsigned i = 0; i < processes->n; i++)
                processes->all[i].begin = i * shift % N_SHIFTS * (N_SAMPLES / N_SHIFTS);
        for (size_t at = 0; at <= 2 * N_SAMPLES && !r; at++) {
                node_set_time(processes->node, (double)at * processes->us_per_sample);
                for (unsigned i = 0; i < processes->n && !r; i++)
                        r = replayed_told(step(processes, &processes->all[i], at),
                                          processes->options->files[i]);
        }
        for (unsigned i = 0; i < processes->n; i++)
                end(processes, &processes->all[i]);
        processes->node = node_free(processes->node);
        *ret_ratio = (double)processes->most_reserved / fmax(1, (double)processes->most_live);
        return r;
}

static int run_all(struct processes *processes, double *ret_worst)
{
        double ratio = 0;
        int r = 0;

        *ret_worst = 0;
        for (unsigned shift = 0; shift < N_SHIFTS && !r; shift++) {
                r = run_shift(processes, shift, &ratio);
                *ret_worst = fmax(*ret_worst, ratio);
        }
        return r;
}

/* The longest trace sets the pace. */
static int read_all(struct processes *processes)
{
        int r = 0;

        for (unsigned i = 0; i < processes->n && !r; i++) {
                struct trace *trace = &processes->all[i].trace;

                r = replayed_read(processes->options->files[i], trace);
                processes->us_per_sample = fmax(processes->us_per_sample,
                                                (double)trace->n_events * REPLAY_US_PER_LINE /
                                                        N_SAMPLES);
        }
        return r;
}

int command_node(const struct options *options, struct rows *rows)
{
        struct processes processes = {
                .options = options, .n = options->n_files, .least_hit_rate = 100};
        struct row node = {.name = "node", .limit = ROW_AT_MOST, .bound = 1.1};
        struct row hits = {
                .name = "node_hit_rate", .unit = "%", .limit = ROW_AT_LEAST, .bound = 95};
        int r;

        processes.all = calloc(processes.n, sizeof(*processes.all));
        if (!processes.all)
                return -ENOMEM;
        r = read_all(&processes);
        if (!r)
                r = run_all(&processes, &node.value);
        for (unsigned i = 0; i < processes.n; i++)
                trace_deinit(&processes.all[i].trace);
        free(processes.all);
        hits.value = processes.least_hit_rate;
        if (!r)
                r = rows_add(rows, &node);
        return r ? r : rows_add(rows, &hits);
}
