#include "bench/peers/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/pairs.h"
#include "bench/timing.h"

#define N_WARM    2
#define N_BATCHES 9

struct team {
        struct player *player;
        unsigned n_steps;
        pthread_barrier_t barrier;
};

/* A thread's; no line of it is another thread's too. */
struct mate {
        _Alignas(128) struct pairs pairs;
        struct team *team;
        unsigned stream;
        pthread_t thread;
        double rate; /* batches a nanosecond, of the first one only */
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

/* One whose steps fail goes on meeting the others. */
static void run_batches(struct mate *mate)
{
        struct samples batches = {.n = 0};

        for (unsigned i = 0; i < N_WARM + N_BATCHES; i++) {
                uint64_t start;

                (void)pthread_barrier_wait(&mate->team->barrier);
                start = now_ns();
                if (!mate->r)
                        mate->r = pairs_steps(&mate->pairs, mate->team->n_steps, alloc, end, mate);
                (void)pthread_barrier_wait(&mate->team->barrier);
                if (i >= N_WARM)
                        samples_add(&batches, 1 / (double)(now_ns() - start));
        }
        mate->rate = samples_median(&batches);
}

static void *mate_main(void *argument)
{
        struct mate *mate = argument;
        int r;

        mate->r = stage_enter(&mate->team->player->stage);
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

                /* Those that were started wait for ever: the process ends. */
                if (r)
                        return player_explain(team->player, -r, "a thread could not be started");
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

int threads_measure(struct player *player, unsigned n_threads, double *ret_rate)
{
        struct team team = {.player = player, .n_steps = player->allocator->n_thread_steps};
        struct mate *mates;
        int r;

        if (!n_threads || n_threads > STAGE_STREAMS)
                return player_explain(player, -EINVAL, "so many threads are not measured");
        mates = aligned_alloc(_Alignof(struct mate), n_threads * sizeof(*mates));
        if (!mates)
                return -ENOMEM;
        memset(mates, 0, n_threads * sizeof(*mates));
        (void)pthread_barrier_init(&team.barrier, NULL, n_threads);
        r = run_team(&team, mates, n_threads);
        *ret_rate = mates[0].rate * n_threads * team.n_steps * 1e3;
        (void)pthread_barrier_destroy(&team.barrier);
        free(mates);
        return r;
}
