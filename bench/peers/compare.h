/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons: each starts its rivals, and adds rows for those that answered, and for those that did not,
 * with the reason. One thread. */
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
        double most; /* bound of gpumemd's number over the other's; 0: none */
};

/* One number of gpumemd and of the others, by turns. */
struct measurement {
        const char *name;     /* of its rows */
        enum rival_kind ours; /* RIVAL_GPUMEMD, or with its handles */
        const char *unit;
        const char *order;
        enum {
                PROCESS_KEPT,  /* one process answers all turns */
                PROCESS_FRESH, /* one process for each turn */
        } process;
        const char *
                start; /* rows of the time from the start of a fresh process to its answer; NULL: none */
        unsigned n_turns;
        double seconds; /* limit of an answer's time; after it no further turn begins */
        unsigned n_against;
        const struct against *against;
};

#define COMPARE_AGAINST_MAX 5

/* Adds the medians of the turns. Returns, like compare_node, only errors that prevented rows; a rival's
 * failure is a row. */
int compare_turns(struct comparing *comparing, const struct measurement *measurement);

/* What four processes with a trace each reserve together; in bench/peers/node.c. */
int compare_node(struct comparing *comparing);

/* Makes "NAME" or "NAME_beside_PEER". */
void compare_name(const char *name, const char *peer, struct row *row);

/* Adds a row with a reason instead of a number. `whose`: gpumemd or the peer that failed. */
int compare_add_note(struct comparing *comparing, const char *name, const char *peer,
                     const char *whose, const char *note);

/* Notes a failure of gpumemd, unless the time was over: the command then fails at its end. Returns r. */
int compare_ours(struct comparing *comparing, int r);
