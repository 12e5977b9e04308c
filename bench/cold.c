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
static int measure_pairs(struct state *state, const char *const names[2],
                         const struct options *options, struct rows *rows)
{
        timed_repetition *const repetitions[2] = {repetition, handle_repetition};
        int r = 0;

        for (unsigned i = 0; i < 2 && !r; i++) {
                struct beside pair = {.name = names[i],
                                      .pattern = PEER_COLD,
                                      .against = PEER_GLIBC,
                                      .bound = BOUND,
                                      .repetition = repetitions[i],
                                      .state = state};

                r = beside_measure(&pair, options, rows);
        }
        return r;
}

/* First nothing else lives in the block. So the free marks how far the stream has come, and wakes the service thread;
 * and where the writes take longer than a look, the block is idle at the next allocation. Then something lives there. */
static int measure_both(struct state *state, const struct options *options, struct rows *rows)
{
        static const char *const alone[2] = {"cold_alone", "cold_alone_handle"};
        static const char *const beside[2] = {"cold", "cold_handle"};
        void *pointer;
        int r = measure_pairs(state, alone, options, rows);

        if (!r)
                r = target_alloc(&state->target, 0, COLD_N_BYTES / 2, &pointer);
        if (r)
                return r;
        r = measure_pairs(state, beside, options, rows);
        (void)target_free(&state->target, 0, pointer);
        return r;
}

static int measure(struct state *state, const struct options *options, struct rows *rows)
{
        int r = start_sleeper();

        if (!r)
                r = cold_init(&state->cold);
        if (!r)
                r = measure_both(state, options, rows);
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
