/* SPDX-License-Identifier: Apache-2.0 */
/* The hot pattern of pairs.h on the library. One thread for each pattern. */
#pragma once

#include "bench/pairs.h"
#include "bench/target.h"

enum hot_way { HOT_PLAIN, HOT_HANDLE }; /* by the stream, or by its handle */

struct hot {
        struct target *target;
        unsigned stream;
        enum hot_way way;
        struct pairs pairs;
};

int hot_init(struct target *target, unsigned stream, enum hot_way way, struct hot *ret_hot);
int hot_deinit(struct hot *hot);

/* For time_repetition. */
int hot_steps(void *hot, unsigned n_steps);
