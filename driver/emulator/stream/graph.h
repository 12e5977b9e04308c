/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: operations that a capture has recorded, to be run as often as they are launched.
 *
 * A plan is the nodes, each with those that it comes after. It grows while it is captured and never changes
 * afterwards, so a graph, its clones and its executables share it, counted. Copies that are made earlier share the
 * nodes that exist then. A graph and an executable do not share user objects: each holds its own.
 *
 * The emulator's lock guards the handles, the nodes of a capture and the user objects. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/emulator/stream/place.h"
#include "driver/emulator/stream/user.h"

struct context;
struct operation;

struct node {
        struct operation *operation;
        struct context *context; /* of the stream that it was captured from */
        struct nodes before;
        unsigned index; /* in the plan; nodes that it comes after have lower ones */
};

struct plan {
        unsigned refs;
        struct nodes nodes;  /* owned, if it is no copy */
        struct plan *origin; /* of a copy, with a count: it has the nodes */
};

enum graph_state { GRAPH_CAPTURING, GRAPH_COMPLETE };

struct graph {
        enum graph_state state;
        uintptr_t handle;
        struct plan *plan;
        struct holdings holdings;
};

/* CUDA_ERROR_OUT_OF_MEMORY leaves the set as it was, or larger. */
CUresult nodes_add(struct nodes *nodes, struct node *node);
CUresult nodes_add_all(struct nodes *nodes, const struct nodes *more);
void nodes_clear(struct nodes *nodes);

struct plan *plan_unref(struct plan *plan);

/* Adds a node that comes after `before`. Consumes the operation if it succeeds. */
CUresult plan_add(struct plan *plan, struct operation *take_operation, struct context *context,
                  const struct nodes *before, struct node **ret_node);

/* Are all nodes among `last`, or before them? */
CUresult plan_ends_in(const struct plan *plan, const struct nodes *last, bool *ret_ends);

/* With the emulator's lock held. A new graph is capturing, and has no user objects. Without a plan it
 * makes one, which is empty. */
CUresult graph_new(struct plan *plan, struct graph **ret_graph);

/* Its plan, or if that may grow a copy; the caller gets a count. With the emulator's lock held. */
CUresult graph_plan(const struct graph *graph, struct plan **ret_plan);

/* With the emulator's lock held. User objects without references are added to `dead`,
 * for the caller to destroy without the lock. */
void graph_free(struct graph *graph, struct user_list *dead);
