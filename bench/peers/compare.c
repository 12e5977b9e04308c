/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/compare.h"

#include <stdio.h>

#include "base/clock.h"
#include "bench/timing.h"

struct side {
        enum rival_kind kind;
        struct rival rival;
        struct samples figures, starts;
        int r; /* a failure, explained in the rival's note */
};

void compare_name(const char *name, const char *peer, struct row *row)
{
        (void)snprintf(row->name, ROW_NAME_MAX, "%s%s%s", name, *peer ? "_beside_" : "", peer);
}

int compare_add_note(struct comparing *comparing, const char *name, const char *peer,
                     const char *whose, const char *note)
{
        struct row row = {.unit = ""};

        compare_name(name, peer, &row);
        (void)snprintf(row.note, ROW_NOTE_MAX, "%.20s: %.72s", whose, note);
        return rows_add(comparing->rows, &row);
}

int compare_ours(struct comparing *comparing, int r)
{
        if (r && !comparing->r_ours && clock_now_ns() < comparing->setup.deadline_ns)
                comparing->r_ours = r;
        return r;
}

static int take_turn(struct side *side, const struct comparing *comparing,
                     const struct measurement *measurement)
{
        double figure = 0;
        uint64_t start = clock_now_ns();
        int r = 0;

        if (!side->rival.pid) {
                r = rival_spawn(side->kind, &comparing->setup, &side->rival);
                if (!r)
                        r = rival_hear_ready(&side->rival, measurement->seconds);
        }
        if (!r)
                r = rival_ask(&side->rival, measurement->order, measurement->seconds, &figure);
        if (!r) {
                samples_add(&side->figures, figure);
                samples_add(&side->starts, (double)(clock_now_ns() - start));
        }
        if (measurement->process == PROCESS_FRESH || r)
                rival_end(&side->rival);
        return r;
}

/* A side that has failed is not asked again. Slow turns are repeated less often. */
static void take_turns(struct side *sides, unsigned n_sides, const struct comparing *comparing,
                       const struct measurement *measurement)
{
        unsigned n = comparing->options->effort == EFFORT_FULL ? measurement->n_turns : 1;
        uint64_t end_ns = clock_now_ns() + (uint64_t)(measurement->seconds * 1e9);

        for (unsigned turn = 0; turn < n && (!turn || clock_now_ns() < end_ns); turn++) {
                for (unsigned i = 0; i < n_sides; i++) {
                        if (!sides[i].r)
                                sides[i].r = take_turn(&sides[i], comparing, measurement);
                }
        }
        for (unsigned i = 0; i < n_sides; i++)
                rival_end(&sides[i].rival);
}

static int add_row(struct comparing *comparing, const char *name, const struct side *ours,
                   const struct side *theirs, struct row *row)
{
        const char *peer = rival_name(theirs->kind);

        if (ours->r)
                return compare_add_note(comparing, name, peer, "gpumemd", ours->rival.note);
        if (theirs->r)
                return compare_add_note(comparing, name, peer, peer, theirs->rival.note);
        compare_name(name, peer, row);
        return rows_add(comparing->rows, row);
}

static int add_rows(struct comparing *comparing, const struct measurement *measurement,
                    struct side *ours, struct side *theirs, double most)
{
        struct row row = {.value = samples_median(&ours->figures),
                          .baseline = samples_median(&theirs->figures),
                          .bound = most,
                          .limit = most > 0 ? ROW_AT_MOST : ROW_NO_BOUND};
        struct row start = {.unit = "ns",
                            .value = samples_median(&ours->starts),
                            .baseline = samples_median(&theirs->starts)};
        int r;

        (void)snprintf(row.unit, ROW_UNIT_MAX, "%s", measurement->unit);
        r = add_row(comparing, measurement->name, ours, theirs, &row);
        if (!r && measurement->start)
                r = add_row(comparing, measurement->start, ours, theirs, &start);
        return r;
}

int compare_turns(struct comparing *comparing, const struct measurement *measurement)
{
        struct side sides[1 + COMPARE_AGAINST_MAX];
        const struct against *against = measurement->against;
        int r = 0;

        for (unsigned i = 0; i <= measurement->n_against; i++)
                sides[i] = (struct side){.kind = i ? against[i - 1].kind : measurement->ours,
                                         .rival = RIVAL_NULL};
        take_turns(sides, measurement->n_against + 1, comparing, measurement);
        (void)compare_ours(comparing, sides[0].r);
        for (unsigned i = 0; i < measurement->n_against && !r; i++)
                r = add_rows(comparing, measurement, &sides[0], &sides[i + 1], against[i].most);
        return r;
}
