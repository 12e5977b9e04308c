/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured: a client of gpumemd, a context and streams on the first device. Failures are told
 * on stderr. The client may be used by any thread that calls target_enter. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"
#include "gpumem.h"

#define TARGET_STREAMS 2

struct target {
        struct gpumem_client *client;
        struct cuda cuda;
        CUdevice device;
        CUcontext context;
        CUstream streams[TARGET_STREAMS];
};

#define TARGET_NULL ((struct target){.client = NULL})

struct options;
struct rows;

int target_init(const struct options *options, struct target *ret_target);
void target_deinit(struct target *target);

/* Measures with a target that is there for so long. */
int target_run(const struct options *options, struct rows *rows,
               int (*measure)(struct target *target, const struct options *options,
                              struct rows *rows));

/* Makes the context the calling thread's. */
int target_enter(const struct target *target);

/* `what` did not work, if it did not: says so and gives a fault. */
int target_check(const char *what, int result);

/* The same of a call of the driver, which says itself what it did not like. */
int target_check_cuda(int result);

static inline int target_alloc(struct target *target, unsigned stream, uint64_t n_bytes,
                               void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = target->streams[stream],
                                         .n_bytes = n_bytes};

        return gpumem_alloc(target->client, &request, ret_pointer);
}

static inline int target_free(struct target *target, unsigned stream, void *pointer)
{
        return gpumem_free(target->client, pointer, target->streams[stream]);
}

/* In the first stream, as replace.h wants them. */
static inline int target_replace_alloc(void *target, uint64_t n_bytes, void **ret_pointer)
{
        return target_alloc(target, 0, n_bytes, ret_pointer);
}

static inline int target_replace_free(void *target, void *pointer)
{
        return target_free(target, 0, pointer);
}

/* The figures of the device's pool. */
int target_stats(struct target *target, struct gpumem_stats *ret_stats);

/* How many of the client's allocations of device memory needed no message so far. */
int target_add_hits(struct target *target, const char *name, struct rows *rows);
