/* SPDX-License-Identifier: Apache-2.0 */
/* The hot pattern inside a capture, also in one of a graph pool, compared with the same outside, by turns. */
#include <dlfcn.h>
#include <stdio.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/hot.h"

#define N_STEPS 1024
#define BOUND   3
#define POOL_ID 1

/* Streams of the target. */
enum { OUTSIDE, INSIDE };

/* Calls that the library does not use are not in its table. Names pass through <cuda.h>'s macros first. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

struct capturing {
        __typeof__(cuStreamBeginCapture) *begin;
        __typeof__(cuStreamEndCapture) *end;
        __typeof__(cuGraphDestroy) *destroy;
};

static int find_calls(struct capturing *ret_calls)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        if (!library) {
                (void)fprintf(stderr, "gpumem-bench: %s\n", dlerror());
                return -ENOENT;
        }
        *ret_calls = (struct capturing){
                (__typeof__(ret_calls->begin))dlsym(library, NAME_OF(cuStreamBeginCapture)),
                (__typeof__(ret_calls->end))dlsym(library, NAME_OF(cuStreamEndCapture)),
                (__typeof__(ret_calls->destroy))dlsym(library, NAME_OF(cuGraphDestroy))};
        if (ret_calls->begin && ret_calls->end && ret_calls->destroy)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: the driver did not capture anything\n");
        return -ENOENT;
}

static int check(CUresult result)
{
        if (!result)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: a capture failed: the driver's error is %d\n",
                      (int)result);
        return -EIO;
}

static int take_turns(const char *name, struct hot *outside, struct hot *inside,
                      const struct options *options, struct rows *rows)
{
        struct row row = {.unit = "ns", .limit = ROW_AT_MOST, .bound = BOUND};
        struct samples samples[2] = {{.n = 0}, {.n = 0}};
        int r = 0;

        for (unsigned i = 0; i < count_repetitions(options) && !r; i++) {
                r = time_repetition(hot_steps, outside, N_STEPS, &row.baseline);
                if (!r)
                        r = time_repetition(hot_steps, inside, N_STEPS, &row.value);
                samples_add(&samples[OUTSIDE], row.baseline);
                samples_add(&samples[INSIDE], row.value);
        }
        row.baseline = samples_median(&samples[OUTSIDE]);
        row.value = samples_median(&samples[INSIDE]);
        (void)snprintf(row.name, ROW_NAME_MAX, "%s", name);
        return r ? r : rows_add(rows, &row);
}

static int measure_inside(const char *name, struct target *target, const struct options *options,
                          struct rows *rows)
{
        struct hot outside, inside;
        int r = hot_init(target, OUTSIDE, HOT_PLAIN, &outside);

        if (!r)
                r = hot_init(target, INSIDE, HOT_PLAIN, &inside);
        if (!r)
                r = take_turns(name, &outside, &inside, options, rows);
        if (!r)
                r = hot_deinit(&inside);
        return r ? r : hot_deinit(&outside);
}

static int measure(const char *name, struct target *target, const struct options *options,
                   struct rows *rows)
{
        CUstream stream = target->streams[INSIDE];
        struct capturing calls;
        CUgraph graph;
        int r, r_end;

        r = find_calls(&calls);
        if (!r)
                r = check(calls.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (r)
                return r;
        r = measure_inside(name, target, options, rows);
        r_end = check(calls.end(stream, &graph));
        if (!r_end)
                r_end = check(calls.destroy(graph));
        return r ? r : r_end;
}

static int measure_in_pool(struct target *target, const struct options *options, struct rows *rows)
{
        CUstream stream = target->streams[INSIDE];
        int r, r_end;

        r = target_check("a graph pool",
                         gpumem_graph_pool_begin(target->client, POOL_ID, stream, NULL));
        if (r)
                return r;
        r = measure("capture_in_pool", target, options, rows);
        r_end = target_check("a graph pool",
                             gpumem_graph_pool_end(target->client, POOL_ID, stream));
        return r ? r : r_end;
}

static int measure_both(struct target *target, const struct options *options, struct rows *rows)
{
        int r = start_sleeper();

        if (!r)
                r = measure("capture", target, options, rows);
        return r ? r : measure_in_pool(target, options, rows);
}

int command_capture(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure_both);
}
