#include "bench/peers/turns.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/timing.h"

struct side {
        enum rival_kind kind;
        const char *order;
        struct rival rival;
        struct samples samples;
        int r; /* it has failed, as the rival's note says */
};

static int ask(struct side *side, const struct turns *turns, double *ret_figure)
{
        double numbers[RIVAL_NUMBERS_MAX];
        int r = rival_ask(&side->rival, side->order, turns->seconds, numbers);

        if (!r)
                *ret_figure = numbers[0];
        return r;
}

/* The order is there before the process reads it. */
static int ask_from_start(struct side *side, const struct comparing *comparing,
                          const struct turns *turns, double *ret_figure)
{
        double numbers[RIVAL_NUMBERS_MAX];
        uint64_t start = clock_now_ns();
        int r = rival_spawn(side->kind, &comparing->setup, &side->rival);

        if (!r)
                r = rival_tell(&side->rival, side->order);
        if (!r)
                r = rival_hear_ready(&side->rival, turns->seconds);
        if (!r)
                r = rival_hear(&side->rival, turns->seconds, numbers);
        *ret_figure = (double)(clock_now_ns() - start);
        return r;
}

static int take_turn(struct side *side, const struct comparing *comparing,
                     const struct turns *turns)
{
        double figure = 0;
        int r = 0;

        if (turns->processes == TURNS_START) {
                r = ask_from_start(side, comparing, turns, &figure);
        } else {
                if (!side->rival.pid)
                        r = rival_start(side->kind, &comparing->setup, &side->rival);
                if (!r)
                        r = ask(side, turns, &figure);
        }
        if (turns->processes != TURNS_KEPT || r)
                rival_end(&side->rival);
        if (!r)
                samples_add(&side->samples, figure);
        return r;
}

/* A side that has failed is not asked again. Turns that take long are fewer. */
static void take_turns(struct side *sides, unsigned n_sides, const struct comparing *comparing,
                       const struct turns *turns)
{
        unsigned n = comparing->options->effort == EFFORT_FULL ? turns->n_turns : 1;
        uint64_t end_ns = clock_now_ns() + (uint64_t)(turns->seconds * 1e9);

        for (unsigned turn = 0; turn < n && (!turn || clock_now_ns() < end_ns); turn++) {
                for (unsigned i = 0; i < n_sides; i++) {
                        if (!sides[i].r)
                                sides[i].r = take_turn(&sides[i], comparing, turns);
                }
        }
        for (unsigned i = 0; i < n_sides; i++)
                rival_end(&sides[i].rival);
}

static int add_row(struct comparing *comparing, const struct turns *turns, struct side *ours,
                   struct side *theirs, unsigned i)
{
        const char *peer = turns->against[i].name ? turns->against[i].name
                                                  : rival_name(theirs->kind);
        struct row row = {.value = samples_median(&ours->samples),
                          .baseline = samples_median(&theirs->samples),
                          .bound = turns->against[i].bound,
                          .limit = turns->against[i].bound > 0 ? turns->limit : ROW_NO_BOUND};

        if (ours->r)
                return comparing_add_note(comparing, turns->name, peer, "gpumemd",
                                          ours->rival.note);
        if (theirs->r)
                return comparing_add_note(comparing, turns->name, peer, peer, theirs->rival.note);
        comparing_name(turns->name, peer, &row);
        (void)snprintf(row.unit, ROW_UNIT_MAX, "%s", turns->unit);
        return rows_add(comparing->rows, &row);
}

int turns_compare(struct comparing *comparing, const struct turns *turns)
{
        struct side sides[1 + TURNS_AGAINST_MAX];
        int r = 0;

        for (unsigned i = 0; i <= turns->n_against; i++)
                sides[i] = (struct side){.kind = i ? turns->against[i - 1].kind : RIVAL_GPUMEMD,
                                         .order = turns->order,
                                         .rival = RIVAL_NULL};
        if (turns->our_order)
                sides[0].order = turns->our_order;
        take_turns(sides, turns->n_against + 1, comparing, turns);
        (void)comparing_ours(comparing, sides[0].r);
        for (unsigned i = 0; i < turns->n_against && !r; i++)
                r = add_row(comparing, turns, &sides[0], &sides[i + 1], i);
        return r;
}
