/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of gpumem-bench, one file for each. */
#pragma once

#include <stdbool.h>

#include "bench/replay.h"
#include "bench/rows.h"

/* Traces that a command takes at most. */
#define FILES_MAX 64

enum effort { EFFORT_FULL, EFFORT_QUICK };

struct options {
        const char *socket_path; /* NULL: the default of gpumem_options */
        enum effort effort;      /* quick: checks that it runs, without useful numbers */
        char **files;            /* for commands that read files */
        unsigned n_files;
        enum replay_memory memory;
        unsigned n_streams;  /* that a trace is dealt to; 0: its own */
        unsigned n_slots;    /* leases that a process may have; 0: as many as gpumemd lets it */
        unsigned first_seed; /* of patterns; 0: 1 */
        bool run_real;       /* a trace goes through the library, too */
        double lag_ms;
        double us_per_line;     /* 0: the default of bench/replay.h */
        const char *peers_path; /* folder of the peers' programs that are not C; NULL: none */
        double seconds;         /* time limit of peers, after which the rest is left out; 0: 250 */
        const char *only;       /* the comparison of peers to run; NULL: all */
};

struct command {
        const char *name;
        const char *help;
        unsigned n_files_min, n_files_max;
        /* Adds its rows. On failure it has printed the reason, and the rows so far stay. */
        int (*run)(const struct options *options, struct rows *rows);
};

extern const struct command commands[];
extern const unsigned n_commands;

/* Runs every other command that measures gpumemd alone. Each has a process of its own, so that its traces
 * in the allocator or in the driver do not influence the next one. */
int command_all(const struct options *options, struct rows *rows);

int command_hot(const struct options *options, struct rows *rows);
int command_paced(const struct options *options, struct rows *rows);
int command_cold(const struct options *options, struct rows *rows);
int command_capture(const struct options *options, struct rows *rows);
int command_random(const struct options *options, struct rows *rows);
int command_growth(const struct options *options, struct rows *rows);
int command_metadata(const struct options *options, struct rows *rows);
int command_threads(const struct options *options, struct rows *rows);
int command_streams(const struct options *options, struct rows *rows);
int command_lease(const struct options *options, struct rows *rows);
int command_idle(const struct options *options, struct rows *rows);
int command_lookups(const struct options *options, struct rows *rows);
int command_pinned(const struct options *options, struct rows *rows);
int command_trace(const struct options *options, struct rows *rows);
int command_traces(const struct options *options, struct rows *rows);
int command_patterns(const struct options *options, struct rows *rows);
int command_peers(const struct options *options, struct rows *rows);
/* Whether peers has this comparison. -EINVAL: it has not, and has said which ones there are. */
int command_peers_check(const char *only);
int command_plot(const struct options *options, struct rows *rows);
int command_node(const struct options *options, struct rows *rows);
