/* SPDX-License-Identifier: Apache-2.0 */
/* Walks all states of a world, those that are fewer steps away first: each is reached by making its steps again, each
 * step that may happen in it is made, and from each the world is brought to rest. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/model/leases_world.h"

struct exploration {
        uint64_t n_states;
        uint64_t n_edges;
        unsigned n_steps_most; /* from the beginning to the last state */
        bool complete;         /* there are no other states */
        const char *broken;    /* in the first state where something is wrong; NULL: nothing is */
};

/* Up to so many states. Says on stdout how it came to what is wrong, if `loud`. */
struct exploration explore(const struct world_kind *kind, uint64_t n_states_max, bool loud);
