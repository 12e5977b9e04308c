/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/hot.h"

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"

#define N_STEPS      1024
#define BOUND_PLAIN  6
#define BOUND_HANDLE 4

static int hot_alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        const struct hot *hot = argument;

        return target_alloc(hot->target, hot->stream, n_bytes, ret_pointer);
}

static int hot_free(void *argument, void *pointer)
{
        const struct hot *hot = argument;

        return target_free(hot->target, hot->stream, pointer);
}

static int handle_alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        const struct hot *hot = argument;

        return target_handle_alloc(hot->target, hot->stream, n_bytes, ret_pointer);
}

static int handle_free(void *argument, void *pointer)
{
        const struct hot *hot = argument;

        return target_handle_free(hot->target, hot->stream, pointer);
}

int hot_init(struct target *target, unsigned stream, enum hot_way way, struct hot *ret_hot)
{
        *ret_hot = (struct hot){.target = target, .stream = stream, .way = way};
        return target_check("hot pattern: alloc", pairs_fill(&ret_hot->pairs, hot_alloc, ret_hot));
}

int hot_deinit(struct hot *hot)
{
        return target_check("hot pattern: free", pairs_empty(&hot->pairs, hot_free, hot));
}

int hot_steps(void *state, unsigned n_steps)
{
        struct hot *hot = state;
        int r = hot->way == HOT_PLAIN
                        ? pairs_steps(&hot->pairs, n_steps, hot_alloc, hot_free, hot)
                        : pairs_steps(&hot->pairs, n_steps, handle_alloc, handle_free, hot);

        return target_check("hot pattern", r);
}

/* Counts the pairs whose new allocation is at another address than the freed one: these split and left a
 * hole. */
static int add_proof(const struct hot *hot, struct rows *rows)
{
        struct row row = {.name = "hot_pairs_that_move",
                          .value = 100.0 * (double)hot->pairs.n_moved / hot->pairs.position,
                          .unit = "%",
                          .limit = ROW_AT_LEAST,
                          .bound = 50};

        return rows_add(rows, &row);
}

static int measure_way(struct target *target, const struct options *options, enum hot_way way,
                       struct rows *rows)
{
        struct hot hot;
        struct beside beside = {.name = way == HOT_PLAIN ? "hot" : "hot_handle",
                                .pattern = PEER_PAIR,
                                .bound = way == HOT_PLAIN ? BOUND_PLAIN : BOUND_HANDLE,
                                .steps = hot_steps,
                                .state = &hot,
                                .n_steps = N_STEPS};
        int r = hot_init(target, 0, way, &hot);

        if (!r)
                r = beside_measure(&beside, options, rows);
        if (!r && way == HOT_PLAIN)
                r = add_proof(&hot, rows);
        return r ? r : hot_deinit(&hot);
}

static int measure(struct target *target, const struct options *options, struct rows *rows)
{
        int r = start_sleeper();

        if (!r)
                r = measure_way(target, options, HOT_PLAIN, rows);
        if (!r)
                r = measure_way(target, options, HOT_HANDLE, rows);
        return r ? r : target_add_hits(target, "hot_hits", rows);
}

int command_hot(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure);
}
