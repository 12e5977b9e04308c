/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of a replacement with ever more live allocations. Each count has a client of its own, since a larger
 * count would have stretched the bookkeeping of a shared one. The counts are built, measured and taken down
 * by turns, several times. */
#include <stdio.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/replace.h"
#include "bench/target.h"

/* Each repetition builds and takes down a million allocations, which takes long. */
#define REPETITIONS_FULL 3
#define N_STEPS          1024
#define BOUND            2

static const uint32_t counts[] = {100, 1000, 10000, 100000, 1000000};

#define N_COUNTS ARRAY_SIZE(counts)

struct growth {
        struct samples ours[N_COUNTS];
        struct samples theirs[N_COUNTS];
};

struct state {
        struct target *target;
        struct replace replace;
};

static int steps(void *argument, unsigned n_steps)
{
        struct state *state = argument;

        return replace_steps(&state->replace, n_steps, target_replace_alloc, target_replace_free,
                             state->target);
}

/* The warm-up has one step for each allocation, so that it uses every part of the bookkeeping. */
static int measure_live(struct state *state, double *ret_ns)
{
        int r, r_empty;

        r = replace_fill(&state->replace, target_replace_alloc, state->target);
        if (r)
                return r;
        r = steps(state, state->replace.n_live);
        if (!r)
                r = time_repetition(steps, state, N_STEPS, ret_ns);
        r_empty = replace_empty(&state->replace, target_replace_free, state->target);
        return r ? r : r_empty;
}

static int measure_ours(const struct options *options, uint32_t n_live, double *ret_ns)
{
        struct target target;
        struct state state = {.target = &target};
        int r = target_init(options, &target);

        if (r)
                return r;
        r = replace_init(&state.replace, n_live, REPLACE_SMALL, 1);
        if (!r) {
                r = target_check("growth", measure_live(&state, ret_ns));
                replace_deinit(&state.replace);
        }
        target_deinit(&target);
        return r;
}

static int measure_theirs(uint32_t n_live, double *ret_ns)
{
        struct peer peer;
        int r = peer_init(PEER_MIMALLOC, PEER_SMALL, n_live, &peer);

        if (r)
                return r;
        r = peer_measure(&peer, ret_ns);
        peer_deinit(&peer);
        return r;
}

static int take_turn(struct growth *growth, const struct options *options, unsigned n_counts)
{
        double ns;
        int r = 0;

        for (unsigned i = 0; i < n_counts && !r; i++) {
                r = measure_ours(options, counts[i], &ns);
                if (r)
                        break;
                samples_add(&growth->ours[i], ns);
                r = measure_theirs(counts[i], &ns);
                samples_add(&growth->theirs[i], ns);
        }
        return r;
}

static int add_rows(struct samples samples[N_COUNTS], unsigned n_counts, const char *whose,
                    struct row row, struct rows *rows)
{
        int r = 0;

        for (unsigned i = 1; i < n_counts && !r; i++) {
                struct row median = {.value = samples_median(&samples[i]),
                                     .baseline = samples_median(&samples[0]),
                                     .unit = "ns"};

                (void)snprintf(row.name, ROW_NAME_MAX, "growth_%u%s", counts[i], whose);
                (void)snprintf(median.name, ROW_NAME_MAX, "growth_%u%s_median", counts[i], whose);
                row.value = samples_least(&samples[i]);
                row.baseline = samples_least(&samples[0]);
                r = rows_add(rows, &row);
                if (!r)
                        r = rows_add(rows, &median);
        }
        return r;
}

static int measure(struct growth *growth, const struct options *options, struct rows *rows)
{
        struct row bounded = {.unit = "ns", .limit = ROW_AT_MOST, .bound = BOUND};
        struct row free = {.unit = "ns"};
        unsigned n_repetitions = options->effort == EFFORT_FULL ? REPETITIONS_FULL : 1;
        unsigned n_counts = options->effort == EFFORT_FULL ? N_COUNTS : N_COUNTS - 2;
        int r = start_sleeper();

        for (unsigned i = 0; i < n_repetitions && !r; i++)
                r = take_turn(growth, options, n_counts);
        if (!r)
                r = add_rows(growth->ours, n_counts, "", bounded, rows);
        return r ? r : add_rows(growth->theirs, n_counts, "_mimalloc", free, rows);
}

int command_growth(const struct options *options, struct rows *rows)
{
        struct growth growth = {.ours = {{.n = 0}}};

        return measure(&growth, options, rows);
}
