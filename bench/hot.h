/* The hot pattern: pairs of free and alloc over 64 live allocations, in which each slot gets another
 * of 16 sizes every time round, so that holes are split and merged. One thread a pattern. */
#pragma once

#include "bench/target.h"

#define HOT_N_LIVE  64
#define HOT_N_SIZES 16

struct hot {
        struct target *target;
        unsigned stream;
        uint64_t sizes[HOT_N_SIZES]; /* 512 B to 256 MiB, each 2.4 times the one before */
        void *live[HOT_N_LIVE];
        unsigned position;
        uint64_t n_moved; /* pairs in which the new allocation is not where the old one was */
};

int hot_init(struct target *target, unsigned stream, struct hot *ret_hot);
int hot_deinit(struct hot *hot);

/* For time_repetition. */
int hot_steps(void *hot, unsigned n_steps);
