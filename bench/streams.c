/* SPDX-License-Identifier: Apache-2.0 */
/* A pair of allocation and free in each of many streams in turn, beside the same in one stream. Once each stream keeps
 * an allocation, so that its heap is never empty; once it keeps none, so that each free empties its heap. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/beside.h"
#include "bench/commands.h"
#include "bench/target.h"

/* Each repetition makes and ends a thousand streams, which takes long. */
#define REPETITIONS_FULL 3
#define N_STEPS_KEPT     4096
#define N_STEPS_EMPTY    256
#define N_WARM           1024 /* pairs in each stream, until its heap looks and records as seldom as ever */
#define N_BYTES          (64 << 10)
#define BOUND            1.5

enum keep { KEEP_ONE, KEEP_NONE };

static const unsigned counts[] = {1, 100, 1000};

#define N_COUNTS ARRAY_SIZE(counts)

struct crowd {
        struct target target;
        unsigned n_streams, next;
        CUstream *streams;
        void **kept;
};

static int alloc(struct crowd *crowd, CUstream stream, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = stream,
                                         .n_bytes = N_BYTES};

        return gpumem_alloc(crowd->target.client, &request, ret_pointer);
}

static int steps(void *state, unsigned n_steps)
{
        struct crowd *crowd = state;
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                CUstream stream = crowd->streams[crowd->next++ % crowd->n_streams];

                r = alloc(crowd, stream, &pointer);
                if (!r)
                        r = gpumem_free(crowd->target.client, pointer, stream);
        }
        return target_check("streams", r);
}

/* Each stream has its heap afterwards. */
static int begin(struct crowd *crowd, enum keep keep)
{
        int r = 0;

        for (unsigned i = 0; i < crowd->n_streams && !r; i++) {
                r = target_check_cuda(CUDA_CALL(&crowd->target.cuda, cuStreamCreate,
                                                &crowd->streams[i], CU_STREAM_NON_BLOCKING));
                if (!r && keep == KEEP_ONE)
                        r = target_check("streams",
                                         alloc(crowd, crowd->streams[i], &crowd->kept[i]));
        }
        return r ? r : steps(crowd, N_WARM * crowd->n_streams);
}

static void end(struct crowd *crowd)
{
        for (unsigned i = 0; i < crowd->n_streams; i++) {
                if (crowd->kept && crowd->kept[i])
                        (void)gpumem_free(crowd->target.client, crowd->kept[i], crowd->streams[i]);
        }
        target_disconnect(&crowd->target);
        for (unsigned i = 0; i < crowd->n_streams; i++) {
                if (crowd->streams && crowd->streams[i])
                        (void)CUDA_CALL(&crowd->target.cuda, cuStreamDestroy, crowd->streams[i]);
        }
        target_deinit(&crowd->target);
        free(crowd->kept);
        free(crowd->streams);
}

/* Each count has a client of its own, so that the heaps of a larger one are not in its way. */
static int measure(const struct options *options, unsigned n_streams, enum keep keep,
                   struct samples *samples)
{
        struct crowd crowd = {.n_streams = n_streams};
        int r = target_init(options, &crowd.target);
        double ns;

        if (r)
                return r;
        crowd.streams = calloc(n_streams, sizeof(*crowd.streams));
        crowd.kept = calloc(n_streams, sizeof(*crowd.kept));
        r = crowd.streams && crowd.kept ? begin(&crowd, keep) : -ENOMEM;
        if (!r)
                r = time_repetition(steps, &crowd, keep == KEEP_ONE ? N_STEPS_KEPT : N_STEPS_EMPTY,
                                    &ns);
        if (!r)
                samples_add(samples, ns);
        end(&crowd);
        return r;
}

/* Disturbances only add time, so the fastest repetitions have the bound; the medians stand beside them. */
static int add_rows(struct samples samples[N_COUNTS], const char *how, struct rows *rows)
{
        int r = 0;

        for (unsigned i = 1; i < N_COUNTS && !r; i++) {
                struct row row = {.value = samples_least(&samples[i]),
                                  .baseline = samples_least(&samples[0]),
                                  .unit = "ns",
                                  .limit = ROW_AT_MOST,
                                  .bound = BOUND};
                struct row median = {.value = samples_median(&samples[i]),
                                     .baseline = samples_median(&samples[0]),
                                     .unit = "ns"};

                (void)snprintf(row.name, ROW_NAME_MAX, "streams_%u_%s", counts[i], how);
                (void)snprintf(median.name, ROW_NAME_MAX, "streams_%u_%s_median", counts[i], how);
                r = rows_add(rows, &row);
                if (!r)
                        r = rows_add(rows, &median);
        }
        return r;
}

int command_streams(const struct options *options, struct rows *rows)
{
        struct samples kept[N_COUNTS] = {{.n = 0}}, none[N_COUNTS] = {{.n = 0}};
        unsigned n_repetitions = options->effort == EFFORT_FULL ? REPETITIONS_FULL : 1;
        int r = start_sleeper();

        for (unsigned i = 0; i < n_repetitions && !r; i++) {
                for (unsigned k = 0; k < N_COUNTS && !r; k++) {
                        r = measure(options, counts[k], KEEP_ONE, &kept[k]);
                        if (!r)
                                r = measure(options, counts[k], KEEP_NONE, &none[k]);
                }
        }
        if (!r)
                r = add_rows(kept, "kept", rows);
        return r ? r : add_rows(none, "empty", rows);
}
