/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one number of gpumemd and the same of the peers, taking repetitions by turns. */
#pragma once

#include "bench/commands.h"
#include "bench/peer.h"
#include "bench/timing.h"

struct beside {
        const char *name; /* of the row beside `against`; the other rows add the peer's name */
        enum peer_allocator against;
        enum peer_pattern pattern;
        uint32_t n_live; /* for the peers */
        double bound;    /* for the row beside `against` */
        timed_steps *steps;
        void *state;
        unsigned n_steps;             /* in a batch */
        timed_repetition *repetition; /* does its own timing; NULL: `steps` are timed */
};

int beside_measure(const struct beside *beside, const struct options *options, struct rows *rows);

unsigned count_repetitions(const struct options *options);
