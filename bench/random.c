/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/replace.h"
#include "bench/target.h"

#define N_LIVE       1000
#define N_STEPS      1024
#define BOUND_PLAIN  8
#define BOUND_HANDLE 5.5

struct state {
        struct target target;
        struct replace replace;
};

static int steps(void *argument, unsigned n_steps)
{
        struct state *state = argument;

        return target_check("random pattern",
                            replace_steps(&state->replace, n_steps, target_replace_alloc,
                                          target_replace_free, &state->target));
}

static int handle_steps(void *argument, unsigned n_steps)
{
        struct state *state = argument;

        return target_check("random pattern",
                            replace_steps(&state->replace, n_steps, target_replace_handle_alloc,
                                          target_replace_handle_free, &state->target));
}

static int fill(struct state *state)
{
        return target_check("random pattern: alloc",
                            replace_fill(&state->replace, target_replace_alloc, &state->target));
}

/* By the stream, then by its handle, on the same allocations. */
static int measure_ways(struct state *state, const struct options *options, struct rows *rows)
{
        struct beside plain = {.name = "random",
                               .pattern = PEER_WIDE,
                               .n_live = N_LIVE,
                               .bound = BOUND_PLAIN,
                               .steps = steps,
                               .state = state,
                               .n_steps = N_STEPS};
        struct beside handle = plain;
        int r = beside_measure(&plain, options, rows);

        handle.name = "random_handle";
        handle.bound = BOUND_HANDLE;
        handle.steps = handle_steps;
        return r ? r : beside_measure(&handle, options, rows);
}

static int measure(struct state *state, const struct options *options, struct rows *rows)
{
        int r = start_sleeper();

        if (!r)
                r = replace_init(&state->replace, N_LIVE, REPLACE_WIDE, 1);
        if (r)
                return r;
        r = fill(state);
        if (!r)
                r = measure_ways(state, options, rows);
        if (!r)
                r = target_add_hits(&state->target, "random_hits", rows);
        if (!r)
                r = replace_empty(&state->replace, target_replace_free, &state->target);
        replace_deinit(&state->replace);
        return r;
}

int command_random(const struct options *options, struct rows *rows)
{
        struct state state;
        int r = target_init(options, &state.target);

        if (r)
                return r;
        r = measure(&state, options, rows);
        target_deinit(&state.target);
        return r;
}
