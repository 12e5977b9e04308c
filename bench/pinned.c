/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory: a pair that hits, and the time to the first bytes, cold and from the pool. */
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/apart.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/target.h"

#define N_STEPS 1024
#define N_FIRST 3 /* repetitions of measurements that take long */

static int alloc(struct target *target, uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .stream = target->streams[0],
                                         .n_bytes = n_bytes};

        return gpumem_alloc(target->client, &request, ret_pointer);
}

static int pair_steps(void *argument, unsigned n_steps)
{
        struct target *target = argument;
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = alloc(target, 64 * KIB, &pointer);
                if (!r)
                        r = target_free(target, 0, pointer);
        }
        return r;
}

/* A live allocation keeps the block from becoming empty. */
static int measure_pairs(struct target *target, const struct options *options, struct rows *rows)
{
        struct row row = {.name = "pinned", .unit = "ns"};
        struct samples samples = {.n = 0};
        void *keeper;
        int r = alloc(target, 64 * KIB, &keeper);

        for (unsigned i = 0; i < count_repetitions(options) && !r; i++) {
                r = time_repetition(pair_steps, target, N_STEPS, &row.value);
                samples_add(&samples, row.value);
        }
        if (!r)
                r = target_free(target, 0, keeper);
        row.value = samples_median(&samples);
        return r ? r : rows_add(rows, &row);
}

static int time_first(struct target *target, uint64_t n_bytes, double *ret_ns)
{
        uint64_t start = clock_now_ns();
        void *pointer;
        int r = alloc(target, n_bytes, &pointer);

        *ret_ns = (double)(clock_now_ns() - start);
        return r ? r : target_free(target, 0, pointer);
}

static int add_first(const char *name, uint64_t n_bytes, struct samples *samples, struct rows *rows)
{
        struct row time = {.value = samples_median(samples), .unit = "ns"};
        struct row rate = {.value = (double)n_bytes / time.value, .unit = "GB/s"};
        int r;

        (void)snprintf(time.name, ROW_NAME_MAX, "%s", name);
        (void)snprintf(rate.name, ROW_NAME_MAX, "%s_rate", name);
        r = rows_add(rows, &time);
        return r ? r : rows_add(rows, &rate);
}

/* The caches of the client and the pool are given back to the system first. */
static int measure_cold(struct target *target, const char *name, uint64_t n_bytes,
                        struct rows *rows)
{
        struct samples samples = {.n = 0};
        int r = 0;

        for (unsigned i = 0; i < N_FIRST && !r; i++) {
                double ns;

                r = gpumem_flush(target->client, NULL);
                if (!r)
                        r = gpumem_free_all_blocks(target->client, GPUMEM_SCOPE_TENANT, NULL);
                if (!r)
                        r = time_first(target, n_bytes, &ns);
                if (!r)
                        samples_add(&samples, ns);
        }
        return r ? r : add_first(name, n_bytes, &samples, rows);
}

static int measure_first(struct target *target, const struct options *options, struct rows *rows)
{
        int r = measure_pairs(target, options, rows);

        if (!r)
                r = measure_cold(target, "pinned_first_64MiB", 64 * MIB, rows);
        if (!r)
                r = measure_cold(target, "pinned_first_1GiB", GIB, rows);
        return target_check("pinned", r);
}

static int run_first(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure_first);
}

/* The memory was another process's before. */
static int measure_second(struct target *target, const struct options *options, struct rows *rows)
{
        struct samples samples = {.n = 0};
        double ns;
        int r = time_first(target, GIB, &ns);

        (void)options;
        if (!r)
                samples_add(&samples, ns);
        if (!r)
                r = add_first("pinned_second_process_1GiB", GIB, &samples, rows);
        return target_check("pinned", r);
}

static int run_second(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure_second);
}

int command_pinned(const struct options *options, struct rows *rows)
{
        int r = apart_measure(run_first, options, rows);

        return r ? r : apart_measure(run_second, options, rows);
}
