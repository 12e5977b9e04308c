/* Two threads, each with a stream of its own, beside one that is alone. Both begin a batch together,
 * and it lasts until the slower one is done: two that take turns on one CPU, or wait for each other,
 * take twice as long. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/hot.h"

#define N_STEPS   8192
#define N_BATCHES 15

/* A thread that was woken is on the CPU of who woke it, until the kernel moves it to one that is idle. */
#define N_FIRST_BATCHES 30
#define BOUND           1.8

struct threads {
        struct target target;
        struct {
                _Alignas(128) struct hot hot; /* no line of it is the other thread's too */
        } halves[2];                          /* the measuring thread's and the other one's */
        pthread_t other;
        sem_t begin, end; /* of the other thread's repetitions */
        _Atomic unsigned n_arrived;
        int r_other;
        _Atomic bool is_over;
};

/* Both leave it within nanoseconds of each other, if both have a CPU. Who waits keeps his: threads that
 * yield to each other may stay on one CPU for good. */
static void meet(struct threads *threads)
{
        unsigned arrived = atomic_fetch_add(&threads->n_arrived, 1) + 1;
        unsigned wanted = (arrived + 1) & ~1u;

        while ((int)(atomic_load(&threads->n_arrived) - wanted) < 0)
                ;
}

/* A thread whose steps fail goes on meeting the other one. */
static int run_batches(struct threads *threads, struct hot *hot, int r, double *ret_ns)
{
        struct samples batches = {.n = 0};

        for (unsigned i = 0; i < N_FIRST_BATCHES + N_BATCHES; i++) {
                uint64_t start;

                meet(threads);
                start = now_ns();
                if (!r)
                        r = hot_steps(hot, N_STEPS);
                meet(threads);
                if (i >= N_FIRST_BATCHES)
                        samples_add(&batches, (double)(now_ns() - start) / N_STEPS);
        }
        if (!r)
                *ret_ns = samples_median(&batches);
        return r;
}

static void *other_main(void *argument)
{
        struct threads *threads = argument;
        double ns;
        int r = target_enter(&threads->target);

        while (sem_wait(&threads->begin) == 0 && !atomic_load(&threads->is_over)) {
                r = run_batches(threads, &threads->halves[1].hot, r, &ns);
                threads->r_other = r;
                (void)sem_post(&threads->end);
        }
        return NULL;
}

static int run_together(struct threads *threads, double *ret_ns)
{
        int r;

        (void)sem_post(&threads->begin);
        r = run_batches(threads, &threads->halves[0].hot, 0, ret_ns);
        (void)sem_wait(&threads->end);
        return r ? r : threads->r_other;
}

/* Pairs a microsecond. */
static int take_turn(struct threads *threads, struct samples *alone, struct samples *together)
{
        double ns;
        int r;

        r = time_repetition(hot_steps, &threads->halves[0].hot, N_STEPS, &ns);
        if (r)
                return r;
        samples_add(alone, 1e3 / ns);
        r = run_together(threads, &ns);
        if (!r)
                samples_add(together, 2 * 1e3 / ns);
        return r;
}

static int measure(struct threads *threads, const struct options *options, struct rows *rows)
{
        struct samples alone = {.n = 0}, together = {.n = 0};
        struct row row = {.name = "threads", .unit = "/us", .limit = ROW_AT_LEAST, .bound = BOUND};
        int r;

        r = pthread_create(&threads->other, NULL, other_main, threads);
        if (r)
                return -r;
        for (unsigned i = 0; i < count_repetitions(options) && !r; i++)
                r = take_turn(threads, &alone, &together);
        atomic_store(&threads->is_over, true);
        (void)sem_post(&threads->begin);
        (void)pthread_join(threads->other, NULL);
        if (r)
                return r;
        row.value = samples_median(&together);
        row.baseline = samples_median(&alone);
        return rows_add(rows, &row);
}

int command_threads(const struct options *options, struct rows *rows)
{
        struct threads threads = {.n_arrived = 0};
        int r;

        r = target_init(options, &threads.target);
        if (r)
                return r;
        (void)sem_init(&threads.begin, 0, 0);
        (void)sem_init(&threads.end, 0, 0);
        for (unsigned i = 0; i < ARRAY_SIZE(threads.halves) && !r; i++)
                r = hot_init(&threads.target, i, &threads.halves[i].hot);
        if (!r)
                r = measure(&threads, options, rows);
        for (unsigned i = 0; i < ARRAY_SIZE(threads.halves) && !r; i++)
                r = hot_deinit(&threads.halves[i].hot);
        target_deinit(&threads.target);
        return r;
}
