/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/commands.h"
#include "bench/loop.h"
#include "bench/target.h"

#define N_ROUNDS_FULL  200
#define N_ROUNDS_QUICK 4
#define N_LAYERS       6
#define N_KEPT         13 /* by a layer */
#define N_SCRATCH      10
#define PAUSE_NS       UINT64_C(28000)
#define BOUND          0.2
#define MIB_OF(x)      ((uint64_t)((x)*MIB))

/* Of a layer, in MiB. */
static const double weights[] = {3, .003, 1, .001, 4, .004, 4, .001, .001, .001, .001, .001};
static const double kept[N_KEPT] = {8, 24, 8, .25, 16, .016, .016, 8, 32, 32, 16, .016, .016};
static const double scratch[] = {1.5, 24, .5, 8, 16, 2, 8, 16, 2, 8};

struct loop {
        struct target *target;
        uint64_t next_ns;
        void *weights[3 * N_LAYERS * ARRAY_SIZE(weights)]; /* and what an optimizer has for them */
        void *kept[N_LAYERS * N_KEPT];
        void *gradients[N_LAYERS * ARRAY_SIZE(weights)];
        unsigned n_kept, n_gradients;
};

static void pause_before(struct loop *loop)
{
        uint64_t now_ns = clock_now_ns();

        /* What another program took from this one is not made up for. */
        if (loop->next_ns + NS_PER_MS < now_ns)
                loop->next_ns = now_ns;
        while (clock_now_ns() < loop->next_ns)
                ;
        loop->next_ns += PAUSE_NS;
}

static int alloc(struct loop *loop, double n_mib, void **ret_pointer)
{
        pause_before(loop);
        return target_alloc(loop->target, 0, MIB_OF(n_mib), ret_pointer);
}

static int end(struct loop *loop, void *pointer)
{
        pause_before(loop);
        return target_free(loop->target, 0, pointer);
}

static int use(struct loop *loop, double n_mib)
{
        void *pointer;
        int r = alloc(loop, n_mib, &pointer);

        return r ? r : end(loop, pointer);
}

static int make_weights(struct loop *loop)
{
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(loop->weights) && !r; i++)
                r = alloc(loop, weights[i % ARRAY_SIZE(weights)], &loop->weights[i]);
        return r;
}

static int go_forth(struct loop *loop)
{
        int r = 0;

        for (unsigned i = 0; i < N_KEPT && !r; i++) {
                void *pointer;

                r = alloc(loop, scratch[i % N_SCRATCH], &pointer);
                if (!r)
                        r = alloc(loop, kept[i], &loop->kept[loop->n_kept++]);
                if (!r)
                        r = end(loop, pointer);
        }
        for (unsigned i = 0; i < N_SCRATCH && !r; i++)
                r = use(loop, scratch[i] / 4);
        return r;
}

static int go_back(struct loop *loop)
{
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(weights) && !r; i++) {
                void *pointer;

                r = alloc(loop, i % 3 ? 8 : 32, &pointer);
                if (!r)
                        r = alloc(loop, weights[i], &loop->gradients[loop->n_gradients++]);
                if (!r)
                        r = use(loop, weights[i] / 2);
                if (!r && loop->n_kept)
                        r = end(loop, loop->kept[--loop->n_kept]);
                if (!r)
                        r = end(loop, pointer);
        }
        return r;
}

static int update_weights(struct loop *loop)
{
        int r = 0;

        while (loop->n_kept && !r)
                r = end(loop, loop->kept[--loop->n_kept]);
        for (unsigned i = 0; i < loop->n_gradients && !r; i++)
                r = use(loop, weights[i % ARRAY_SIZE(weights)]);
        while (loop->n_gradients && !r)
                r = end(loop, loop->gradients[--loop->n_gradients]);
        return r;
}

static int go_round(struct loop *loop)
{
        int r = 0;

        for (unsigned i = 0; i < N_LAYERS && !r; i++)
                r = go_forth(loop);
        for (unsigned i = 0; i < N_LAYERS && !r; i++)
                r = go_back(loop);
        return r ? r : update_weights(loop);
}

/* Misses a round. */
static int count(struct loop *loop, unsigned n_rounds, double *ret_misses)
{
        struct gpumem_stats before = {0}, after = {0};
        int r = target_stats(loop->target, &before);

        for (unsigned i = 0; i < n_rounds && !r; i++)
                r = target_check("loop", go_round(loop));
        if (!r)
                r = target_stats(loop->target, &after);
        if (!r)
                *ret_misses = (double)(after.n_misses - before.n_misses) / n_rounds;
        return r;
}

int loop_measure(struct target *target, const struct options *options, struct rows *rows)
{
        unsigned n_rounds = options->effort == EFFORT_FULL ? N_ROUNDS_FULL : N_ROUNDS_QUICK;
        struct row first = {.name = "loop_misses_at_first"};
        struct row later = {.name = "loop_misses", .limit = ROW_AT_MOST, .bound = BOUND};
        struct loop loop = {.target = target};
        int r = target_check("loop", make_weights(&loop));

        if (!r)
                r = count(&loop, n_rounds, &first.value);
        if (!r)
                r = count(&loop, n_rounds / 4, &later.value);
        for (unsigned i = 0; i < ARRAY_SIZE(loop.weights) && !r; i++)
                r = target_check("loop", end(&loop, loop.weights[i]));
        if (!r)
                r = rows_add(rows, &first);
        return r ? r : rows_add(rows, &later);
}
