/* SPDX-License-Identifier: Apache-2.0 */
/* The driver calls in every hit, compared with their cost in an H200's driver. Numbers of hits include the
 * emulated driver's calls, which must not cost more. */
#include <stdio.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/target.h"

#define N_STEPS 4096

static int capturing_steps(void *argument, unsigned n_steps)
{
        struct target *target = argument;
        CUstreamCaptureStatus status;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = CUDA_CALL(&target->cuda, cuStreamIsCapturing, target->streams[0], &status);
        return target_check_cuda(r);
}

static int id_steps(void *argument, unsigned n_steps)
{
        struct target *target = argument;
        unsigned long long id;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = CUDA_CALL(&target->cuda, cuStreamGetId, target->streams[0], &id);
        return target_check_cuda(r);
}

static int context_steps(void *argument, unsigned n_steps)
{
        struct target *target = argument;
        CUcontext context;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = CUDA_CALL(&target->cuda, cuCtxGetCurrent, &context);
        return target_check_cuda(r);
}

static const struct {
        const char *name;
        timed_steps *steps;
        double h200_ns;
} lookups[] = {
        {"lookup_capturing", capturing_steps, 14},
        {"lookup_stream_id", id_steps, 14},
        {"lookup_context", context_steps, 7},
};

static int measure(struct target *target, const struct options *options, struct rows *rows)
{
        int r = start_sleeper();

        for (unsigned i = 0; i < ARRAY_SIZE(lookups) && !r; i++) {
                struct row row = {.unit = "ns", .baseline = lookups[i].h200_ns};
                struct samples samples = {.n = 0};

                (void)snprintf(row.name, ROW_NAME_MAX, "%s", lookups[i].name);
                for (unsigned n = 0; n < count_repetitions(options) && !r; n++) {
                        r = time_repetition(lookups[i].steps, target, N_STEPS, &row.value);
                        samples_add(&samples, row.value);
                }
                row.value = samples_median(&samples);
                r = r ? r : rows_add(rows, &row);
        }
        return r;
}

int command_lookups(const struct options *options, struct rows *rows)
{
        return target_run(options, rows, measure);
}
