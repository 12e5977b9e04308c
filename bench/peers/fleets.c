/* Four processes that run at once, each a trace, out of phase: the peak of what all of them reserve over the
 * peak of what all of them ask for. gpumemd's reserve one pool's memory, PyTorch's each its own. */
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "bench/peers/comparing.h"

#define N_PROCESSES 4
#define SECONDS     40

/* A trace is so many samples long, and each process begins half a trace after the one before. */
#define N_SAMPLES 2048
#define N_LAG     (N_SAMPLES / 2)

struct process {
        struct rival rival;
        unsigned n_each; /* events a sample */
        double live, reserved;
};

struct fleet {
        enum rival_kind kind;
        struct process processes[N_PROCESSES];
        struct rival node; /* for gpumemd's: says what the daemon has reserved */
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
        if (!r && fleet->kind == RIVAL_GPUMEMD)
                r = failed(fleet, &fleet->node,
                           rival_start(RIVAL_CLIENT, &comparing->setup, &fleet->node));
        return r;
}

static int open_all(struct comparing *comparing, struct fleet *fleet)
{
        double numbers[RIVAL_NUMBERS_MAX];
        char order[RIVAL_TEXT_MAX];
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];

                (void)snprintf(order, sizeof(order), "play %s",
                               comparing->options->files[i % comparing->options->n_files]);
                r = failed(fleet, &process->rival,
                           rival_ask(&process->rival, order, SECONDS, numbers));
                process->n_each = (unsigned)ceil(numbers[0] / N_SAMPLES);
        }
        return r;
}

static int is_on(unsigned process, unsigned at)
{
        return at >= process * N_LAG && at - process * N_LAG < N_SAMPLES;
}

/* A sample of all of them, at once. */
static int go(struct fleet *fleet, unsigned at)
{
        double numbers[RIVAL_NUMBERS_MAX];
        char order[32];
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];

                (void)snprintf(order, sizeof(order), "go %u", process->n_each);
                if (is_on(i, at))
                        r = failed(fleet, &process->rival, rival_tell(&process->rival, order));
        }
        for (unsigned i = 0; i < N_PROCESSES && !r; i++) {
                struct process *process = &fleet->processes[i];

                if (!is_on(i, at))
                        continue;
                r = failed(fleet, &process->rival, rival_hear(&process->rival, SECONDS, numbers));
                process->live = numbers[0];
                process->reserved = numbers[1];
        }
        return r;
}

/* A process whose trace is over ends, and has nothing any more. */
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

static int look(struct fleet *fleet)
{
        double numbers[RIVAL_NUMBERS_MAX], live = 0, reserved = 0;
        int r = 0;

        for (unsigned i = 0; i < N_PROCESSES; i++) {
                live += fleet->processes[i].live;
                reserved += fleet->processes[i].reserved;
        }
        if (fleet->kind == RIVAL_GPUMEMD) {
                r = failed(fleet, &fleet->node,
                           rival_ask(&fleet->node, "reserved", SECONDS, numbers));
                reserved = numbers[0];
        }
        fleet->most_live = fmax(fleet->most_live, live);
        fleet->most_reserved = fmax(fleet->most_reserved, reserved);
        return r;
}

static int run(struct comparing *comparing, enum rival_kind kind, struct fleet *fleet)
{
        int r;

        *fleet = (struct fleet){.kind = kind, .node = RIVAL_NULL};
        for (unsigned i = 0; i < N_PROCESSES; i++)
                fleet->processes[i].rival = (struct rival)RIVAL_NULL;
        r = start_all(comparing, fleet);
        if (!r)
                r = open_all(comparing, fleet);
        for (unsigned at = 0; at < (N_PROCESSES - 1) * N_LAG + N_SAMPLES && !r; at++) {
                r = go(fleet, at);
                if (!r)
                        r = look(fleet);
                end_one(fleet, at);
        }
        for (unsigned i = 0; i < N_PROCESSES; i++)
                rival_end(&fleet->processes[i].rival);
        rival_end(&fleet->node);
        return r;
}

static double ratio_of(const struct fleet *fleet)
{
        return fleet->most_reserved / fmax(1, fleet->most_live);
}

int compare_fleets(struct comparing *comparing)
{
        static const enum rival_kind others[] = {RIVAL_TORCH_PYTHON, RIVAL_TORCH_EXPANDABLE};
        static const char name[] = "node_4_processes";
        struct row ours = {.unit = "", .limit = ROW_AT_MOST, .bound = 1.1};
        struct fleet fleet;
        int r;

        if (!comparing->options->n_files)
                return 0;
        if (comparing_ours(comparing, run(comparing, RIVAL_GPUMEMD, &fleet)))
                return comparing_add_note(comparing, name, "", "gpumemd", fleet.note);
        ours.value = ratio_of(&fleet);
        comparing_name(name, "", &ours);
        r = rows_add(comparing->rows, &ours);
        for (unsigned i = 0; i < ARRAY_SIZE(others) && !r; i++) {
                const char *peer = rival_name(others[i]);
                struct row row = {.unit = "", .value = ours.value};

                comparing_name(name, peer, &row);
                if (run(comparing, others[i], &fleet)) {
                        r = comparing_add_note(comparing, name, peer, peer, fleet.note);
                } else {
                        row.baseline = ratio_of(&fleet);
                        r = rows_add(comparing->rows, &row);
                }
        }
        return r;
}
