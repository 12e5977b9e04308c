/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of a soak process: captured with allocations and frees, some in a graph pool. They are launched
 * again while everything else goes on, and destroyed, some of them while they run. A failure ends the
 * process as in crowd.h. One thread. */
#pragma once

#include <cuda.h>

#include "driver/cuda.h"
#include "tests/live/client/crowd.h"

#define GRAPHS_MAX 4

struct graph {
        struct crowd_memory result; /* memory outside of graphs */
        CUgraph graph;
        CUgraphExec executable;
        bool is_pooled;
};

struct graphs {
        struct crowd *crowd;
        struct cuda cuda;
        __typeof__(cuStreamBeginCapture) *begin;
        __typeof__(cuStreamEndCapture) *end;
        __typeof__(cuGraphInstantiate) *instantiate;
        __typeof__(cuGraphLaunch) *launch;
        __typeof__(cuGraphDestroy) *destroy;
        __typeof__(cuGraphExecDestroy) *destroy_executable;
        struct graph all[GRAPHS_MAX];
        unsigned n;
        uint64_t n_captures, n_replays, n_refused;
};

void graphs_init(struct graphs *graphs, struct crowd *crowd);

/* Captures one more graph, in a lane; with enough graphs, one is destroyed before. The capture frees
 * `freed`, which has been checked; it may be NULL. */
void graphs_capture(struct graphs *graphs, struct crowd_lane *lane,
                    const struct crowd_memory *freed);

/* Launches a graph, if there is one, and checks what it has written. */
void graphs_replay(struct graphs *graphs);

/* Uses the pool's memory outside of captures. */
void graphs_warm_up(struct graphs *graphs, struct crowd_lane *lane);

void graphs_drop_all(struct graphs *graphs);
