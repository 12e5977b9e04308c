/* SPDX-License-Identifier: Apache-2.0 */
/* The hot pattern of pairs.h on the library. One thread for each pattern. */
#pragma once

#include "bench/pairs.h"
#include "bench/target.h"

struct hot {
        struct target *target;
        unsigned stream;
        struct pairs pairs;
};

int hot_init(struct target *target, unsigned stream, struct hot *ret_hot);
int hot_deinit(struct hot *hot);

/* For time_repetition. */
int hot_steps(void *hot, unsigned n_steps);
