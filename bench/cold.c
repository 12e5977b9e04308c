/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cold.h"

#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/target.h"

/* Beside glibc, whose own pair touches few lines. */
#define BOUND 1.8

struct state {
        struct target target;
        struct cold cold;
};

static int repetition(void *argument, double *ret_ns)
{
        struct state *state = argument;

        return target_check("cold pattern",
                            cold_repetition(&state->cold, target_replace_alloc, target_replace_free,
                                            &state->target, ret_ns));
}

static int handle_repetition(void *argument, double *ret_ns)
{
        struct state *state = argument;

        return target_check("cold pattern",
                            cold_repetition(&state->cold, target_replace_handle_alloc,
                                            target_replace_handle_free, &state->target, ret_ns));
}

/* By the stream, then by its handle. */
static int measure(struct state *state, const struct options *options, struct rows *rows)
{
        struct beside plain = {.name = "cold",
                               .pattern = PEER_COLD,
                               .against = PEER_GLIBC,
                               .bound = BOUND,
                               .repetition = repetition,
                               .state = state};
        struct beside handle = plain;
        int r = start_sleeper();

        if (!r)
                r = cold_init(&state->cold);
        if (!r)
                r = beside_measure(&plain, options, rows);
        handle.name = "cold_handle";
        handle.repetition = handle_repetition;
        if (!r)
                r = beside_measure(&handle, options, rows);
        if (!r)
                r = target_add_hits(&state->target, "cold_hits", rows);
        cold_deinit(&state->cold);
        return r;
}

int command_cold(const struct options *options, struct rows *rows)
{
        struct state state = {.cold = {.written = NULL}};
        int r = target_init(options, &state.target);

        if (r)
                return r;
        r = measure(&state, options, rows);
        target_deinit(&state.target);
        return r;
}
