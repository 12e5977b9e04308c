/* SPDX-License-Identifier: Apache-2.0 */
/* What gpumem-bench can do, one file a command. */
#pragma once

#include "bench/replay.h"
#include "bench/rows.h"

/* Traces that a command takes at most. */
#define FILES_MAX 64

enum effort { EFFORT_FULL, EFFORT_QUICK };

struct options {
        const char *socket_path; /* NULL: as gpumem_options has it */
        enum effort effort;      /* quick: that it runs, not what it costs */
        char **files;            /* for commands that read some */
        unsigned n_files;
        enum replay_memory memory;
        unsigned n_streams; /* of a trace; 0: one */
        double lag_ms;
        double us_per_line;     /* 0: as bench/replay.h has it */
        const char *peers_path; /* folder of what is not C of peers; NULL: none */
        double seconds;         /* for all of peers, after which what is left is left out; 0: 250 */
        const char *only;       /* of the comparisons of peers; NULL: all */
};

struct command {
        const char *name;
        const char *help;
        unsigned n_files_min, n_files_max;
        /* Adds its rows. On failure, which it has told on stderr, those so far stay. */
        int (*run)(const struct options *options, struct rows *rows);
};

extern const struct command commands[];
extern const unsigned n_commands;

/* Every other command that measures gpumemd by itself, each in a process of its own: what one leaves in
 * the allocator or in the driver is not in the next one's way. */
int command_all(const struct options *options, struct rows *rows);

int command_hot(const struct options *options, struct rows *rows);
int command_capture(const struct options *options, struct rows *rows);
int command_random(const struct options *options, struct rows *rows);
int command_growth(const struct options *options, struct rows *rows);
int command_metadata(const struct options *options, struct rows *rows);
int command_threads(const struct options *options, struct rows *rows);
int command_lease(const struct options *options, struct rows *rows);
int command_idle(const struct options *options, struct rows *rows);
int command_lookups(const struct options *options, struct rows *rows);
int command_pinned(const struct options *options, struct rows *rows);
int command_trace(const struct options *options, struct rows *rows);
int command_traces(const struct options *options, struct rows *rows);
int command_peers(const struct options *options, struct rows *rows);
int command_plot(const struct options *options, struct rows *rows);
int command_node(const struct options *options, struct rows *rows);
