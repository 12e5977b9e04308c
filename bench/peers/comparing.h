/* Comparisons: each starts the rivals it needs, and adds rows for those that answered and for those that
 * did not, with the reason. One thread. */
#pragma once

#include "bench/commands.h"
#include "bench/peers/rival.h"

struct comparing {
        const struct options *options;
        struct rival_setup setup;
        struct rows *rows;
        int r_ours; /* the first failure of gpumemd itself; 0: none */
};

/* "NAME" or "NAME_beside_PEER". */
void comparing_name(const char *name, const char *peer, struct row *row);

/* A row that says why it has no figure. Ours and another's: whose failure it is stands before it. */
int comparing_add_note(struct comparing *comparing, const char *name, const char *peer,
                       const char *whose, const char *note);

/* A rival that is gpumemd's has failed, if it has: the command fails in the end, unless there was no time
 * left. Returns r. */
int comparing_ours(struct comparing *comparing, int r);

/* Bytes that are cached for gpumemd's clients go back to the driver, so that a comparison begins with
 * nothing. */
void comparing_clear(struct comparing *comparing);

/* Each returns what kept rows from being added; a rival's failure is a row. */
int compare_traces(struct comparing *comparing);
int compare_fleets(struct comparing *comparing);
int compare_killed(struct comparing *comparing);
int compare_clients(struct comparing *comparing);
int compare_pinned(struct comparing *comparing);
int compare_first(struct comparing *comparing);
