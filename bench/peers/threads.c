/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of the hot pattern in several threads, each with a stream. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/pairs.h"
#include "bench/peers/player.h"
#include "bench/timing.h"

#define N_BATCHES   9
#define FIRST_STEPS 32

/* Allocators that are slow in many threads have shorter batches, and after this time no further one. */
#define BATCH_NS 200000000
#define ALL_NS   6000000000

/* Each slot has had each size twice, so the memory has reached its maximum. A slow allocator need not
 * finish this. */
#define WARM_STEPS (2 * PAIRS_N_LIVE * PAIRS_N_SIZES)
#define WARM_NS    3000000000

/* The first thread changes these; the others read them after the next barrier. */
struct team {
        struct player *player;
        unsigned n_steps;
        unsigned n_warm_steps;
        bool is_over;
        uint64_t start_ns;
        pthread_barrier_t barrier;
};

/* Each thread has its own cache lines. */
struct mate {
        _Alignas(128) struct pairs pairs;
        struct team *team;
        unsigned stream;
        pthread_t thread;
        double rate; /* pairs of one thread in a nanosecond; set by the first thread only */
        int r;
};

static int alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        const struct mate *mate = argument;
        struct player *player = mate->team->player;

        return player->allocator->alloc(player, mate->stream, n_bytes, ret_pointer);
}

static int end(void *argument, void *pointer)
{
        const struct mate *mate = argument;
        struct player *player = mate->team->player;

        return player->allocator->free(player, mate->stream, pointer);
}

/* Runs until the slowest thread is done. 0: the measurement is over. */
static uint64_t run_batch(struct mate *mate)
{
        struct team *team = mate->team;
        uint64_t start;

        (void)pthread_barrier_wait(&team->barrier);
        if (team->is_over)
                return 0;
        start = clock_now_ns();
        if (!mate->r)
                mate->r = pairs_steps(&mate->pairs, team->n_steps, alloc, end, mate);
        (void)pthread_barrier_wait(&team->barrier);
        return clock_now_ns() - start;
}

static unsigned fitting_steps(const struct team *team, uint64_t batch_ns)
{
        double fit = (double)team->n_steps * BATCH_NS / (double)(batch_ns ? batch_ns : 1);
        unsigned most = team->player->allocator->n_thread_steps;

        if (fit >= most)
                return most;
        return fit > FIRST_STEPS ? (unsigned)fit : FIRST_STEPS;
}

static void plan_next(struct team *team, struct samples *batches, uint64_t batch_ns)
{
        uint64_t ns = clock_now_ns() - team->start_ns;

        if (team->n_warm_steps < WARM_STEPS && ns < WARM_NS) {
                team->n_warm_steps += team->n_steps;
                team->n_steps = fitting_steps(team, batch_ns);
        } else {
                samples_add(batches, team->n_steps / (double)batch_ns);
        }
        team->is_over = batches->n == N_BATCHES || (batches->n && ns > ALL_NS);
}

/* A thread whose steps fail still takes part in the barrier. */
static void run_batches(struct mate *mate)
{
        struct samples batches = {.n = 0};
        uint64_t ns;

        while ((ns = run_batch(mate))) {
                if (!mate->stream)
                        plan_next(mate->team, &batches, ns);
        }
        mate->rate = samples_median(&batches);
}

static void *mate_main(void *argument)
{
        struct mate *mate = argument;
        int r;

        mate->r = player_enter(mate->team->player);
        if (!mate->r)
                mate->r = pairs_fill(&mate->pairs, alloc, mate);
        run_batches(mate);
        r = pairs_empty(&mate->pairs, end, mate);
        mate->r = mate->r ? mate->r : r;
        return NULL;
}

static int start_all(struct team *team, struct mate *mates, unsigned n_threads)
{
        for (unsigned i = 1; i < n_threads; i++) {
                int r = pthread_create(&mates[i].thread, NULL, mate_main, &mates[i]);

                /* The started threads wait for ever, so the process ends. */
                if (r)
                        return player_explain(team->player, -r, "cannot start a thread");
        }
        return 0;
}

static int run_team(struct team *team, struct mate *mates, unsigned n_threads)
{
        int r;

        for (unsigned i = 0; i < n_threads; i++) {
                mates[i].team = team;
                mates[i].stream = i;
        }
        r = start_all(team, mates, n_threads);
        if (r)
                return r;
        (void)mate_main(&mates[0]);
        r = mates[0].r;
        for (unsigned i = 1; i < n_threads; i++) {
                (void)pthread_join(mates[i].thread, NULL);
                r = r ? r : mates[i].r;
        }
        return r;
}

int order_threads(struct player *player, const char *argument, double *ret_rate)
{
        struct team team = {.player = player, .n_steps = FIRST_STEPS, .start_ns = clock_now_ns()};
        unsigned n_threads = (unsigned)strtoul(argument, NULL, 10);
        struct mate *mates;
        int r;

        if (!n_threads || n_threads > PLAYER_STREAMS)
                return player_explain(player, -EINVAL, "unsupported number of threads");
        mates = aligned_alloc(_Alignof(struct mate), n_threads * sizeof(*mates));
        if (!mates)
                return player_explain(player, -ENOMEM, "out of memory");
        memset(mates, 0, n_threads * sizeof(*mates));
        (void)pthread_barrier_init(&team.barrier, NULL, n_threads);
        r = run_team(&team, mates, n_threads);
        *ret_rate = mates[0].rate * n_threads * 1e3;
        (void)pthread_barrier_destroy(&team.barrier);
        free(mates);
        return r;
}
