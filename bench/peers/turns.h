/* One figure of gpumemd's beside those of others, by turns. */
#pragma once

#include "bench/peers/comparing.h"

#define TURNS_AGAINST_MAX 5

struct against {
        enum rival_kind kind;
        const char *name; /* NULL: the kind's */
        double bound;     /* 0: none */
};

struct turns {
        const char *name;
        const char *unit;
        const char *order;
        const char *our_order; /* NULL: the same */
        enum {
                TURNS_KEPT,  /* a process answers all its turns */
                TURNS_FRESH, /* one process a turn */
                TURNS_START, /* the same; the figure is the time from its start to the answer */
        } processes;
        unsigned n_turns;
        double seconds; /* an answer may take; and no turn but the first begins after that */
        enum row_limit limit;
        unsigned n_against; /* up to TURNS_AGAINST_MAX */
        const struct against *against;
};

/* Medians, and gpumemd's further numbers of its last turn. */
int turns_compare(struct comparing *comparing, const struct turns *turns);
