/* SPDX-License-Identifier: Apache-2.0 */
/* Time from the end of GPU work to the word IDLE on the board, with the library as programs use it.
 *
 * Each round makes an allocation of 64 to 256 MiB, enqueues work of varying length and a host function that
 * notes the work's end, and frees at once. The time runs from the end of the work, or from a later free,
 * until every lease that was busy before the free is idle. A thread reads the board's words some ten
 * thousand times a second and sleeps in between, so that it takes no CPU from the library.
 *
 * The library's thread looks every 3 ms, and marks a block idle at the second look that finds it so.
 * `_sleeps` is the time that two such sleeps take in a thread that does nothing else. */
#include "bench/latency.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "bench/target.h"
#include "client/connection/link.h"
#include "proto/board.h"

#define N_FULL  600
#define N_QUICK 20

#define LEAST_BYTES (64 * MIB)
#define MOST_BYTES  (256 * MIB)
#define WORK_BYTES  (4 * MIB)
#define WORK_MS_MAX 24
#define LOOK_MS     3 /* client/runtime/service_thread.h's */
#define WATCH_NS    50000
#define GIVE_UP_NS  UINT64_C(5000000000)
#define BOUND_MS    10

/* From <cuda.h>; the library does not use it, so it is not in its table. */
typedef __typeof__(cuLaunchHostFunc) launch_host_function;

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

struct latency {
        struct target target;
        launch_host_function *launch;
        uint32_t n_slots;
        _Atomic uint64_t *words;
        uint32_t *busy; /* slots */
        uint32_t n_busy;
        double work_ns;            /* for WORK_BYTES */
        _Atomic uint64_t ended_ns; /* when the work ended */
        uint64_t random;
};

/* xorshift64: the same numbers in every run. */
static uint64_t draw(struct latency *latency, uint64_t below)
{
        uint64_t x = latency->random;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        latency->random = x;
        return (x >> 11) % below;
}

static int ask_daemon(const struct options *options, struct message_welcome *ret_welcome)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct link *link = NULL;
        int r = link_open(options->socket_path, &(struct link_hello){.program = "gpumem-bench"},
                          &link, ret_welcome, &fds);

        link_free(link);
        return r;
}

/* Finds the library's mapping of the board: the process has one client. */
static int find_board(const struct options *options, struct latency *latency)
{
        struct message_welcome welcome;
        FILE *maps;
        char line[512];
        unsigned long start = 0;
        int r = ask_daemon(options, &welcome);

        if (r)
                return r;
        maps = fopen("/proc/self/maps", "re");
        if (!maps)
                return err_errno();
        while (!start && fgets(line, sizeof(line), maps)) {
                if (strstr(line, "/memfd:gpumem-board"))
                        start = strtoul(line, NULL, 16);
        }
        (void)fclose(maps);
        if (!start)
                return -ENOENT;
        latency->words = board_words((void *)start, welcome.n_pools);
        latency->n_slots = welcome.n_slots;
        latency->busy = calloc(latency->n_slots, sizeof(*latency->busy));
        return latency->busy ? 0 : -ENOMEM;
}

static bool is_in(const struct latency *latency, uint32_t slot, enum board_state state)
{
        return (atomic_load(&latency->words[slot]) & 0xff) == state;
}

static int find_busy(struct latency *latency)
{
        latency->n_busy = 0;
        for (uint32_t slot = 0; slot < latency->n_slots; slot++) {
                if (is_in(latency, slot, BOARD_BUSY))
                        latency->busy[latency->n_busy++] = slot;
        }
        return latency->n_busy ? 0 : -ENOTRECOVERABLE;
}

static void drop_idle(struct latency *latency)
{
        while (latency->n_busy && is_in(latency, latency->busy[latency->n_busy - 1], BOARD_IDLE))
                latency->n_busy--;
}

static int watch(struct latency *latency)
{
        uint64_t until_ns = clock_now_ns() + GIVE_UP_NS;

        drop_idle(latency);
        while (latency->n_busy) {
                if (clock_now_ns() > until_ns) {
                        (void)fprintf(stderr, "gpumem-bench: %u leases do not become idle\n",
                                      latency->n_busy);
                        return -ETIME;
                }
                (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = WATCH_NS},
                                      NULL);
                drop_idle(latency);
        }
        return 0;
}

static void CUDA_CB note_end(void *argument)
{
        struct latency *latency = argument;

        atomic_store(&latency->ended_ns, clock_now_ns());
}

static int work(struct latency *latency, void *pointer, unsigned n_times)
{
        CUstream stream = latency->target.streams[0];
        int r = 0;

        for (unsigned i = 0; i < n_times && !r; i++)
                r = CUDA_CALL(&latency->target.cuda, cuMemsetD8Async,
                              (CUdeviceptr)(uintptr_t)pointer, (unsigned char)i, WORK_BYTES,
                              stream);
        if (!r && latency->launch(stream, note_end, latency) != CUDA_SUCCESS)
                r = -EIO;
        return target_check_cuda(r);
}

/* Measures how long a piece of work takes. */
static int calibrate(struct latency *latency)
{
        uint64_t start_ns = 0;
        void *pointer;
        int r = target_alloc(&latency->target, 0, LEAST_BYTES, &pointer);

        for (unsigned i = 0; i < 2 && !r; i++) {
                start_ns = clock_now_ns();
                r = work(latency, pointer, 16);
                if (!r)
                        r = CUDA_CALL(&latency->target.cuda, cuStreamSynchronize,
                                      latency->target.streams[0]);
        }
        latency->work_ns = (double)(clock_now_ns() - start_ns) / 16;
        return r ? r : target_free(&latency->target, 0, pointer);
}

static uint64_t later(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static int measure_one(struct latency *latency, double *ret_ms)
{
        uint64_t n_bytes = LEAST_BYTES + draw(latency, MOST_BYTES - LEAST_BYTES);
        double work_ns = (double)draw(latency, WORK_MS_MAX * 1000) * 1000;
        uint64_t freed_ns;
        void *pointer;
        int r = target_alloc(&latency->target, 0, n_bytes, &pointer);

        if (r)
                return r;
        r = find_busy(latency);
        if (!r)
                r = work(latency, pointer, (unsigned)(work_ns / latency->work_ns));
        freed_ns = clock_now_ns();
        if (!r)
                r = target_free(&latency->target, 0, pointer);
        if (!r)
                r = watch(latency);
        *ret_ms = (double)(clock_now_ns() - later(freed_ns, atomic_load(&latency->ended_ns))) / 1e6;
        return r;
}

static int compare(const void *one, const void *other)
{
        double a = *(const double *)one, b = *(const double *)other;

        return (a > b) - (a < b);
}

/* Sorts the values. */
static double percentile(double *all, unsigned n, unsigned percent)
{
        qsort(all, n, sizeof(*all), compare);
        return n ? all[n * percent / 100] : 0;
}

struct sleeps {
        pthread_t thread;
        _Atomic bool over;
        unsigned n;
        double all_ms[N_FULL];
};

static void *sleep_twice(void *argument)
{
        struct sleeps *sleeps = argument;

        while (!atomic_load(&sleeps->over) && sleeps->n < ARRAY_SIZE(sleeps->all_ms)) {
                uint64_t start_ns = clock_now_ns();

                for (unsigned i = 0; i < 2; i++)
                        (void)poll(NULL, 0, LOOK_MS);
                sleeps->all_ms[sleeps->n++] = (double)(clock_now_ns() - start_ns) / 1e6;
        }
        return NULL;
}

static int add_rows(double *all_ms, unsigned n, struct sleeps *sleeps, struct rows *rows)
{
        const struct row added[] = {
                {"idle_latency", percentile(all_ms, n, 99), "ms", 0, BOUND_MS, ROW_AT_MOST, ""},
                {"idle_latency_median", percentile(all_ms, n, 50), "ms", 0, 0, ROW_NO_BOUND, ""},
                {"idle_latency_sleeps", percentile(sleeps->all_ms, sleeps->n, 99), "ms", 0, 0,
                 ROW_NO_BOUND, ""},
        };
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(added) && !r; i++)
                r = rows_add(rows, &added[i]);
        return r;
}

static int measure_all(struct latency *latency, double *all_ms, unsigned n, struct sleeps *sleeps)
{
        int r = pthread_create(&sleeps->thread, NULL, sleep_twice, sleeps);

        if (r)
                return -r;
        for (unsigned i = 0; i < n && !r; i++)
                r = measure_one(latency, &all_ms[i]);
        atomic_store(&sleeps->over, true);
        (void)pthread_join(sleeps->thread, NULL);
        return r;
}

static int measure(struct latency *latency, const struct options *options, struct rows *rows)
{
        unsigned n = options->effort == EFFORT_FULL ? N_FULL : N_QUICK;
        CLEANUP(freep)
        double *all_ms = calloc(n, sizeof(*all_ms));
        struct sleeps sleeps = {.n = 0};
        int r = all_ms ? calibrate(latency) : -ENOMEM;

        if (!r)
                r = measure_all(latency, all_ms, n, &sleeps);
        return r ? r : add_rows(all_ms, n, &sleeps, rows);
}

static int open_all(const struct options *options, struct latency *latency)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);
        int r;

        if (library)
                latency->launch = (launch_host_function *)dlsym(library, NAME_OF(cuLaunchHostFunc));
        r = latency->launch ? target_init(options, &latency->target) : -ENOENT;
        return r ? r : find_board(options, latency);
}

int latency_measure(const struct options *options, struct rows *rows)
{
        struct latency latency = {.target = TARGET_NULL, .random = 88172645463325252u};
        int r = open_all(options, &latency);

        if (!r)
                r = measure(&latency, options, rows);
        target_deinit(&latency.target);
        free(latency.busy);
        return target_check("idle_latency", r);
}
