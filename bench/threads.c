/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads at once, each with a stream of its own, compared with one thread that does both halves one
 * after the other. The driver's two look-ups of each hit are measured the same way, since the library
 * cannot make up for what the driver loses. Both threads begin a batch together, and it lasts until the
 * slower one is done: two threads that share a CPU, or wait for each other, take twice as long. The fastest
 * times count: on a machine with other load two CPUs may share a core for seconds, which the look-ups show. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/hot.h"

/* The hot pattern, once through. Batches are short and many, so that most run undisturbed on both CPUs. */
#define N_STEPS         1024
#define N_BATCHES_FULL  501
#define N_BATCHES_QUICK 15

/* A woken thread runs on the CPU of the thread that woke it, until the kernel moves it to an idle one. */
#define N_FIRST_FULL  240
#define N_FIRST_QUICK 30
#define BOUND         1.8

/* Each thread has its own cache lines. */
struct half {
        _Alignas(128) struct hot hot;
        double batches_ns[N_BATCHES_FULL];
};

struct threads {
        struct target target;
        struct half halves[2]; /* of the measuring thread and of the other one */
        timed_steps *steps;    /* of a half */
        pthread_t other;
        sem_t begin, end;            /* of the other thread's repetitions */
        unsigned n_first, n_batches; /* of one repetition; the first n_first are not counted */
        unsigned n_meet;             /* threads that run at the same time */
        _Atomic unsigned n_arrived;
        int r_other;
        _Atomic bool is_over;
};

static int pair_steps(void *state, unsigned n_steps)
{
        struct half *half = state;

        return hot_steps(&half->hot, n_steps);
}

static int look_up_steps(void *state, unsigned n_steps)
{
        const struct half *half = state;
        const struct target *target = half->hot.target;
        CUstream stream = target->streams[half->hot.stream];
        CUstreamCaptureStatus status;
        unsigned long long id;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = CUDA_CALL(&target->cuda, cuStreamIsCapturing, stream, &status);
                if (!r)
                        r = CUDA_CALL(&target->cuda, cuStreamGetId, stream, &id);
        }
        return target_check_cuda(r);
}

/* Both threads leave this barrier within nanoseconds of each other, if each has a CPU. A waiting thread
 * spins: threads that yield to each other may stay on one CPU. */
static void meet(struct threads *threads)
{
        unsigned arrived = atomic_fetch_add(&threads->n_arrived, 1) + 1;
        unsigned wanted = arrived + arrived % threads->n_meet;

        while (atomic_load(&threads->n_arrived) < wanted)
                ;
}

/* A thread whose steps fail still takes part in the barrier. */
static int run_batches(struct threads *threads, struct half *half, int r, double *ret_ns)
{
        for (unsigned i = 0; i < threads->n_first + threads->n_batches; i++) {
                uint64_t start;

                meet(threads);
                start = clock_now_ns();
                if (!r)
                        r = threads->steps(half, N_STEPS);
                meet(threads);
                half->batches_ns[i % threads->n_batches] = (double)(clock_now_ns() - start) /
                                                           N_STEPS;
        }
        if (!r)
                *ret_ns = median_of(half->batches_ns, threads->n_batches);
        return r;
}

static void *other_main(void *argument)
{
        struct threads *threads = argument;
        double ns;
        int r = target_enter(&threads->target);

        while (sem_wait(&threads->begin) == 0 && !atomic_load(&threads->is_over)) {
                r = run_batches(threads, &threads->halves[1], r, &ns);
                threads->r_other = r;
                (void)sem_post(&threads->end);
        }
        return NULL;
}

static int run_alone(struct threads *threads, struct half *half, double *ret_ns)
{
        threads->n_meet = 1;
        atomic_store(&threads->n_arrived, 0);
        return run_batches(threads, half, 0, ret_ns);
}

static int run_together(struct threads *threads, double *ret_ns)
{
        int r;

        threads->n_meet = 2;
        atomic_store(&threads->n_arrived, 0);
        (void)sem_post(&threads->begin);
        r = run_batches(threads, &threads->halves[0], 0, ret_ns);
        (void)sem_wait(&threads->end);
        return r ? r : threads->r_other;
}

/* Steps of each kind in a microsecond, the fastest time of each. */
struct rates {
        timed_steps *steps;
        double alone, together;
};

static void raise_to(double *rate, double other)
{
        if (other > *rate)
                *rate = other;
}

/* Both halves one after the other, and both at once. The layout of heaps in a processor's caches differs
 * from heap to heap, and its cost is not caused by threads. */
static int take_turn(struct threads *threads, struct rates *rates)
{
        double one_ns, other_ns, both_ns;
        int r;

        threads->steps = rates->steps;
        r = run_alone(threads, &threads->halves[0], &one_ns);
        if (!r)
                r = run_alone(threads, &threads->halves[1], &other_ns);
        if (!r)
                r = run_together(threads, &both_ns);
        if (r)
                return r;
        raise_to(&rates->alone, 2 * 1e3 / (one_ns + other_ns));
        raise_to(&rates->together, 2 * 1e3 / both_ns);
        return 0;
}

static int measure_both(struct threads *threads, const struct options *options, struct rates *pairs,
                        struct rates *look_ups)
{
        int r = 0;

        for (unsigned i = 0; i < count_repetitions(options) && !r; i++) {
                r = take_turn(threads, pairs);
                if (!r)
                        r = take_turn(threads, look_ups);
        }
        return r;
}

static int add_rows(const struct rates *pairs, const struct rates *look_ups, struct rows *rows)
{
        struct row row = {.name = "threads",
                          .value = pairs->together,
                          .baseline = pairs->alone,
                          .unit = "/us",
                          .limit = ROW_AT_LEAST,
                          .bound = BOUND};
        struct row look_up_row = {.name = "threads_look_ups",
                                  .value = look_ups->together,
                                  .baseline = look_ups->alone,
                                  .unit = "/us"};
        int r = rows_add(rows, &row);

        return r ? r : rows_add(rows, &look_up_row);
}

static int measure(struct threads *threads, const struct options *options, struct rows *rows)
{
        struct rates pairs = {.steps = pair_steps}, look_ups = {.steps = look_up_steps};
        int r = pthread_create(&threads->other, NULL, other_main, threads);

        if (r)
                return -r;
        r = measure_both(threads, options, &pairs, &look_ups);
        atomic_store(&threads->is_over, true);
        (void)sem_post(&threads->begin);
        (void)pthread_join(threads->other, NULL);
        return r ? r : add_rows(&pairs, &look_ups, rows);
}

/* With one CPU, each batch would take as long as the kernel lets a waiting thread run. */
static bool has_two_cpus(void)
{
        cpu_set_t cpus;

        return sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) > 1;
}

int command_threads(const struct options *options, struct rows *rows)
{
        bool is_full = options->effort == EFFORT_FULL;
        struct threads threads = {.n_first = is_full ? N_FIRST_FULL : N_FIRST_QUICK,
                                  .n_batches = is_full ? N_BATCHES_FULL : N_BATCHES_QUICK};
        int r;

        if (!has_two_cpus()) {
                (void)fprintf(stderr,
                              "gpumem-bench: threads: not measured, two threads need two CPUs\n");
                return 0;
        }
        r = target_init(options, &threads.target);
        if (r)
                return r;
        (void)sem_init(&threads.begin, 0, 0);
        (void)sem_init(&threads.end, 0, 0);
        for (unsigned i = 0; i < ARRAY_SIZE(threads.halves) && !r; i++)
                r = hot_init(&threads.target, i, HOT_PLAIN, &threads.halves[i].hot);
        if (!r)
                r = measure(&threads, options, rows);
        for (unsigned i = 0; i < ARRAY_SIZE(threads.halves) && !r; i++)
                r = hot_deinit(&threads.halves[i].hot);
        target_deinit(&threads.target);
        return r;
}
