/* SPDX-License-Identifier: Apache-2.0 */
/* One figure of gpumemd's beside those of the peers, by turns: the repetitions of all of them. */
#pragma once

#include "bench/commands.h"
#include "bench/peer.h"
#include "bench/timing.h"

struct beside {
        const char *name; /* of the first row, beside mimalloc; the others have the peer's added */
        enum peer_pattern pattern;
        uint32_t n_live; /* of the peers */
        double bound;    /* of the first row */
        timed_steps *steps;
        void *state;
        unsigned n_steps; /* in a batch */
};

int beside_measure(const struct beside *beside, const struct options *options, struct rows *rows);

unsigned count_repetitions(const struct options *options);
