/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons: each starts the rivals it needs, and adds rows for those that answered and for those that did not, with
 * the reason. One thread. */
#pragma once

#include "bench/commands.h"
#include "bench/peers/rival.h"

struct comparing {
        const struct options *options;
        struct rival_setup setup;
        struct rows *rows;
        int r_ours; /* the first failure of gpumemd itself; 0: none */
};

struct against {
        enum rival_kind kind;
        double most; /* bound of gpumemd's figure over the other's; 0: none */
};

/* One figure of gpumemd beside those of others, by turns. */
struct measurement {
        const char *name; /* of its rows */
        const char *unit;
        const char *order;
        enum {
                PROCESS_KEPT,  /* one answers all turns */
                PROCESS_FRESH, /* one a turn */
        } process;
        const char *
                start; /* rows of the time from the start of a fresh process to its answer; NULL: none */
        unsigned n_turns;
        double seconds; /* an answer may take; and no turn but the first begins after that */
        unsigned n_against;
        const struct against *against;
};

#define COMPARE_AGAINST_MAX 5

/* Medians of the turns. Like compare_node it returns what kept rows from being added; a rival's failure is a row. */
int compare_turns(struct comparing *comparing, const struct measurement *measurement);

/* What four processes with a trace each reserve together; bench/peers/node.c's. */
int compare_node(struct comparing *comparing);

/* "NAME" or "NAME_beside_PEER". */
void compare_name(const char *name, const char *peer, struct row *row);

/* A row that says why it has no figure. `whose`: it failed, gpumemd or the peer. */
int compare_add_note(struct comparing *comparing, const char *name, const char *peer,
                     const char *whose, const char *note);

/* Takes note of a failure of gpumemd, unless there was no time left: the command fails in the end. Returns r. */
int compare_ours(struct comparing *comparing, int r);
