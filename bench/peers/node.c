/* SPDX-License-Identifier: Apache-2.0 */
/* Four processes at once, each with a trace, out of phase. The result is the peak of all reserved memory
 * over the peak of all requested memory. gpumemd's processes share one pool; each of PyTorch's reserves its
 * own memory. The requested bytes are read from the traces: the processes play the lines of a sample
 * together, at the same pace. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/bare.h"
#include "bench/peers/compare.h"
#include "bench/replayed.h"
#include "bench/trace.h"
#include "client/connection/rows.h"
#include "gpumem.h"
#include "proto/address.h"

#define N_PROCESSES 4
#define SECONDS     40

/* A trace has so many samples, and each process begins half a trace after the one before. */
#define N_SAMPLES 2048
#define N_LAG     (N_SAMPLES / 2)

struct process {
        struct rival rival;
        struct trace trace;
        uint64_t *sizes; /* by id */
        size_t next;     /* event */
        size_t n_each;   /* events in a sample */
        double live, reserved;
};

struct fleet {
        enum rival_kind kind;
        struct process processes[N_PROCESSES];
        struct bare bare; /* for gpumemd's pool, over the daemon's admin socket */
        double most_live, most_reserved;
        char note[ROW_NOTE_MAX];
};

static int failed(struct fleet *fleet, const struct rival *rival, int r)
{
        if (r)
                (void)snprintf(fleet->note, ROW_NOTE_MAX, "%s", rival->note);
        return r;
}

static int start_all(struct comparing *comparing, struct fleet *fleet)
{
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES && !r; i++)
                r = failed(fleet, &fleet->processes[i].rival,
                           rival_spawn(fleet->kind, &comparing->setup, &fleet->processes[i].rival));
        for (unsigned i = 0; i < N_PROCESSES && !r; i++)
                r = failed(fleet, &fleet->processes[i].rival,
                           rival_hear_ready(&fleet->processes[i].rival, SECONDS));
        return r;
}

/* The admin socket is needed to reset the peaks of all tenants. */
static int connect_node(struct comparing *comparing, struct fleet *fleet)
{
        struct options options = {.socket_path = NULL};
        struct sockaddr_un client, admin;
        int r = address_to_connect(comparing->setup.socket_path, &client);

        if (!r)
                r = address_of_admin(&client, &admin);
        options.socket_path = admin.sun_path;
        if (!r)
                r = bare_init(&options, &fleet->bare);
        if (r)
                (void)snprintf(fleet->note, ROW_NOTE_MAX, "the admin socket: %s",
                               gpumem_strerror(r));
        return r;
}

static int reset_peak(struct fleet *fleet)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.reset_peaks.scope = PROTO_SCOPE_NODE;
        request.reset_peaks.pool = fleet->bare.pool;
        r = link_call(fleet->bare.link, &request, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET, &reply,
                      &fds);
        if (r)
                (void)snprintf(fleet->note, ROW_NOTE_MAX, "peaks: %s", gpumem_strerror(r));
        return r;
}

/* The peak of the daemon's device memory since the reset. */
static int read_peak(struct fleet *fleet)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        void *rows;
        int r = link_call(fleet->bare.link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply,
                          &fds);

        if (!r)
                r = rows_read(fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes,
                              sizeof(struct stats_row), &rows);
        if (r) {
                (void)snprintf(fleet->note, ROW_NOTE_MAX, "figures: %s", gpumem_strerror(r));
                return r;
        }
        for (uint32_t i = 0; i < reply.stats_reply.n_rows; i++) {
                const struct stats_row *row = (const struct stats_row *)rows + i;

                if (row->pool == fleet->bare.pool)
                        fleet->most_reserved = (double)row->reserved_peak;
        }
        free(rows);
        return 0;
}

static int read_one(struct fleet *fleet, struct process *process, const char *file)
{
        int r = replayed_read(file, &process->trace);

        if (!r) {
                process->n_each = (process->trace.n_events + N_SAMPLES - 1) / N_SAMPLES;
                process->sizes = calloc(process->trace.n_ids, sizeof(*process->sizes));
                r = process->sizes ? 0 : -ENOMEM;
        }
        if (r)
                (void)snprintf(fleet->note, ROW_NOTE_MAX, "cannot read %s", file);
        return r;
}

static int open_all(struct comparing *comparing, struct fleet *fleet)
{
        double number;
        char order[RIVAL_TEXT_MAX];
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];
                const char *file = comparing->options->files[i % comparing->options->n_files];

                r = read_one(fleet, process, file);
                if (r)
                        return r;
                (void)snprintf(order, sizeof(order), "play %s", file);
                r = failed(fleet, &process->rival,
                           rival_ask(&process->rival, order, SECONDS, &number));
        }
        return r;
}

static int is_on(unsigned process, unsigned at)
{
        return at >= process * N_LAG && at - process * N_LAG < N_SAMPLES;
}

/* Plays one sample in all processes at once. */
static int go(struct fleet *fleet, unsigned at)
{
        char order[32];
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];

                (void)snprintf(order, sizeof(order), "go %zu", process->n_each);
                if (is_on(i, at))
                        r = failed(fleet, &process->rival, rival_tell(&process->rival, order));
        }
        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];

                if (!is_on(i, at))
                        continue;
                r = failed(fleet, &process->rival,
                           rival_hear(&process->rival, SECONDS, &process->reserved));
        }
        return r;
}

/* Ends a process whose trace is over, so that it holds no memory. */
static void end_one(struct fleet *fleet, unsigned at)
{
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                struct process *process = &fleet->processes[i];

                if (at + 1 != i * N_LAG + N_SAMPLES)
                        continue;
                rival_end(&process->rival);
                process->live = process->reserved = 0;
        }
}

static void count_line(struct process *process)
{
        const struct trace_event *event = &process->trace.events[process->next++];

        if (event->kind == TRACE_ALLOC)
                process->sizes[event->id] = event->n_bytes;
        process->live += event->kind == TRACE_ALLOC ? (double)event->n_bytes
                                                    : -(double)process->sizes[event->id];
}

/* Plays a line of the sample in every process that has one. */
static int count_lines(struct fleet *fleet, unsigned at, size_t line)
{
        double live = 0;
        int is_there = 0;

        for (unsigned i = 0; i < N_PROCESSES; i++) {
                struct process *process = &fleet->processes[i];

                if (is_on(i, at) && line < process->n_each &&
                    process->next < process->trace.n_events) {
                        count_line(process);
                        is_there = 1;
                }
                live += process->live;
        }
        fleet->most_live = fmax(fleet->most_live, live);
        return is_there;
}

static void look(struct fleet *fleet, unsigned at)
{
        double reserved = 0;

        for (size_t line = 0; count_lines(fleet, at, line); line++)
                ;
        for (unsigned i = 0; i < N_PROCESSES; i++)
                reserved += fleet->processes[i].reserved;
        fleet->most_reserved = fmax(fleet->most_reserved, reserved);
}

static int play_all(struct fleet *fleet)
{
        int r = 0;

        for (unsigned at = 0; at < (N_PROCESSES - 1) * N_LAG + N_SAMPLES && !r; at++) {
                r = go(fleet, at);
                look(fleet, at);
                end_one(fleet, at);
        }
        return r;
}

/* gpumemd's pool reports its own peak. Of the others the sum at each sample's end is taken. */
static int run(struct comparing *comparing, enum rival_kind kind, struct fleet *fleet)
{
        int r;

        *fleet = (struct fleet){.kind = kind, .bare = BARE_NULL};
        for (unsigned i = 0; i < N_PROCESSES; i++)
                fleet->processes[i].rival = RIVAL_NULL;
        r = start_all(comparing, fleet);
        if (!r)
                r = open_all(comparing, fleet);
        if (!r && kind == RIVAL_GPUMEMD)
                r = connect_node(comparing, fleet);
        if (!r && kind == RIVAL_GPUMEMD)
                r = reset_peak(fleet);
        if (!r)
                r = play_all(fleet);
        if (!r && kind == RIVAL_GPUMEMD)
                r = read_peak(fleet);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                rival_end(&fleet->processes[i].rival);
                trace_deinit(&fleet->processes[i].trace);
                free(fleet->processes[i].sizes);
        }
        bare_deinit(&fleet->bare);
        return r;
}

static double ratio_of(const struct fleet *fleet)
{
        return fleet->most_reserved / fmax(1, fleet->most_live);
}

int compare_node(struct comparing *comparing)
{
        static const enum rival_kind others[] = {RIVAL_TORCH, RIVAL_TORCH_EXPANDABLE};
        static const char name[] = "node_4_processes";
        struct row ours = {.unit = "", .limit = ROW_AT_MOST, .bound = 1.1};
        struct fleet fleet;
        int r;

        if (!comparing->options->n_files)
                return 0;
        if (compare_ours(comparing, run(comparing, RIVAL_GPUMEMD, &fleet)))
                return compare_add_note(comparing, name, "", "gpumemd", fleet.note);
        ours.value = ratio_of(&fleet);
        compare_name(name, "", &ours);
        r = rows_add(comparing->rows, &ours);
        for (unsigned i = 0; i < ARRAY_SIZE(others) && !r; i++) {
                const char *peer = rival_name(others[i]);
                struct row row = {.unit = "", .value = ours.value};

                compare_name(name, peer, &row);
                if (run(comparing, others[i], &fleet)) {
                        r = compare_add_note(comparing, name, peer, peer, fleet.note);
                } else {
                        row.baseline = ratio_of(&fleet);
                        r = rows_add(comparing->rows, &row);
                }
        }
        return r;
}
