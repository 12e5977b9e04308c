/* SPDX-License-Identifier: Apache-2.0 */
/* The hot pattern: pairs of free and alloc over 64 live allocations. Each slot gets another of 16 sizes in
 * every round, so that holes are split and merged. In a header, like replace.h, and in C that is also C++:
 * the peers run the same code. One thread. */
#pragma once

#include "bench/replace.h"

#define PAIRS_N_LIVE  64
#define PAIRS_N_SIZES 16

struct pairs {
        uint64_t sizes[PAIRS_N_SIZES]; /* 512 B to 256 MiB, each 2.4 times the one before */
        void *live[PAIRS_N_LIVE];
        unsigned position;
        uint64_t n_moved; /* pairs whose new allocation is at another address than the old one */
};

REPLACE_INLINE int pairs_fill(struct pairs *pairs, replace_alloc *alloc, void *argument)
{
        int r = 0;

        pairs->position = 0;
        pairs->n_moved = 0;
        for (unsigned i = 0; i < PAIRS_N_SIZES; i++)
                pairs->sizes[i] = (uint64_t)exp2(19.0 * i / (PAIRS_N_SIZES - 1)) * 512;
        for (unsigned i = 0; i < PAIRS_N_LIVE && !r; i++)
                r = alloc(argument, pairs->sizes[i % PAIRS_N_SIZES], &pairs->live[i]);
        return r;
}

REPLACE_INLINE int pairs_empty(struct pairs *pairs, replace_free *end, void *argument)
{
        int r = 0;

        for (unsigned i = 0; i < PAIRS_N_LIVE && !r; i++)
                r = end(argument, pairs->live[i]);
        return r;
}

/* A slot's next size is that of its last neighbour: the freed hole never has the right size. */
REPLACE_INLINE int pairs_steps(struct pairs *pairs, unsigned n_steps, replace_alloc *alloc,
                               replace_free *end, void *argument)
{
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                unsigned slot = pairs->position % PAIRS_N_LIVE;
                unsigned size = (slot + pairs->position / PAIRS_N_LIVE + 1) % PAIRS_N_SIZES;
                void *before = pairs->live[slot];

                r = end(argument, before);
                if (!r)
                        r = alloc(argument, pairs->sizes[size], &pairs->live[slot]);
                pairs->n_moved += pairs->live[slot] != before;
                pairs->position++;
        }
        return r;
}
