#include "bench/hot.h"

#include <math.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"

#define N_STEPS 1024

int hot_init(struct target *target, unsigned stream, struct hot *ret_hot)
{
        int r = 0;

        *ret_hot = (struct hot){.target = target, .stream = stream};
        for (unsigned i = 0; i < HOT_N_SIZES; i++)
                ret_hot->sizes[i] = (uint64_t)exp2(19.0 * i / (HOT_N_SIZES - 1)) * 512;
        for (unsigned i = 0; i < HOT_N_LIVE && !r; i++)
                r = target_alloc(target, stream, ret_hot->sizes[i % HOT_N_SIZES],
                                 &ret_hot->live[i]);
        return target_check("hot pattern: alloc", r);
}

int hot_deinit(struct hot *hot)
{
        int r = 0;

        for (unsigned i = 0; i < HOT_N_LIVE && !r; i++)
                r = target_free(hot->target, hot->stream, hot->live[i]);
        return target_check("hot pattern: free", r);
}

/* A slot's next size is its last one's neighbour: what it leaves is no hole of the right size. */
int hot_steps(void *state, unsigned n_steps)
{
        struct hot *hot = state;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                unsigned slot = hot->position % HOT_N_LIVE;
                unsigned size = (slot + hot->position / HOT_N_LIVE + 1) % HOT_N_SIZES;
                void *before = hot->live[slot];

                r = target_free(hot->target, hot->stream, before);
                if (!r)
                        r = target_alloc(hot->target, hot->stream, hot->sizes[size],
                                         &hot->live[slot]);
                hot->n_moved += hot->live[slot] != before;
                hot->position++;
        }
        return target_check("hot pattern", r);
}

/* What is cut somewhere else than what was freed came out of another hole, and left one. */
static int add_proof(const struct hot *hot, struct rows *rows)
{
        struct row row = {.name = "hot_pairs_that_move",
                          .value = 100.0 * (double)hot->n_moved / hot->position,
                          .unit = "%",
                          .limit = ROW_AT_LEAST,
                          .bound = 50};

        return rows_add(rows, &row);
}

static int measure(struct target *target, const struct options *options, struct rows *rows)
{
        struct hot hot;
        struct beside beside = {.name = "hot",
                                .pattern = PEER_PAIR,
                                .bound = 10,
                                .steps = hot_steps,
                                .state = &hot,
                                .n_steps = N_STEPS};
        int r;

        r = hot_init(target, 0, &hot);
        if (!r)
                r = beside_measure(&beside, options, rows);
        if (!r)
                r = target_add_hits(target, "hot_hits", rows);
        if (!r)
                r = add_proof(&hot, rows);
        return r ? r : hot_deinit(&hot);
}

int command_hot(const struct options *options, struct rows *rows)
{
        struct target target;
        int r;

        r = target_init(options, &target);
        if (r)
                return r;
        r = start_sleeper();
        if (!r)
                r = measure(&target, options, rows);
        target_deinit(&target);
        return r;
}
