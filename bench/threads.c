/* Two threads, each with a stream of its own, beside one that is alone; and the driver's two look-ups that
 * are in each hit, in the same way: what the driver itself loses cannot be had back. Both begin a batch together,
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

/* A thread's; no line of it is the other thread's too. */
struct half {
        _Alignas(128) struct hot hot;
};

struct threads {
        struct target target;
        struct half halves[2]; /* the measuring thread's and the other one's */
        timed_steps *steps;    /* of a half */
        pthread_t other;
        sem_t begin, end; /* of the other thread's repetitions */
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
static int run_batches(struct threads *threads, struct half *half, int r, double *ret_ns)
{
        struct samples batches = {.n = 0};

        for (unsigned i = 0; i < N_FIRST_BATCHES + N_BATCHES; i++) {
                uint64_t start;

                meet(threads);
                start = now_ns();
                if (!r)
                        r = threads->steps(half, N_STEPS);
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
                r = run_batches(threads, &threads->halves[1], r, &ns);
                threads->r_other = r;
                (void)sem_post(&threads->end);
        }
        return NULL;
}

static int run_together(struct threads *threads, double *ret_ns)
{
        int r;

        (void)sem_post(&threads->begin);
        r = run_batches(threads, &threads->halves[0], 0, ret_ns);
        (void)sem_wait(&threads->end);
        return r ? r : threads->r_other;
}

/* Pairs a microsecond. */
static int take_turn(struct threads *threads, struct samples *alone, struct samples *together)
{
        double ns;
        int r;

        r = time_repetition(threads->steps, &threads->halves[0], N_STEPS, &ns);
        if (r)
                return r;
        samples_add(alone, 1e3 / ns);
        r = run_together(threads, &ns);
        if (!r)
                samples_add(together, 2 * 1e3 / ns);
        return r;
}

static int measure_steps(struct threads *threads, timed_steps *steps, const struct options *options,
                         struct row row, struct rows *rows)
{
        struct samples alone = {.n = 0}, together = {.n = 0};
        int r = 0;

        threads->steps = steps;
        for (unsigned i = 0; i < count_repetitions(options) && !r; i++)
                r = take_turn(threads, &alone, &together);
        row.value = samples_median(&together);
        row.baseline = samples_median(&alone);
        return r ? r : rows_add(rows, &row);
}

static int measure(struct threads *threads, const struct options *options, struct rows *rows)
{
        struct row pairs = {
                .name = "threads", .unit = "/us", .limit = ROW_AT_LEAST, .bound = BOUND};
        struct row look_ups = {.name = "threads_look_ups", .unit = "/us"};
        int r;

        r = pthread_create(&threads->other, NULL, other_main, threads);
        if (r)
                return -r;
        r = measure_steps(threads, pair_steps, options, pairs, rows);
        if (!r)
                r = measure_steps(threads, look_up_steps, options, look_ups, rows);
        atomic_store(&threads->is_over, true);
        (void)sem_post(&threads->begin);
        (void)pthread_join(threads->other, NULL);
        return r;
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
