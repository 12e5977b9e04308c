/* SPDX-License-Identifier: Apache-2.0 */
/* The measured object: a client of gpumemd, a context, and streams on the first device. Failures are
 * printed on stderr. Any thread that calls target_enter may use the client. */
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
        struct gpumem_stream *handles[TARGET_STREAMS]; /* of these, open */
};

#define TARGET_NULL ((struct target){.client = NULL})

struct options;
struct rows;

int target_init(const struct options *options, struct target *ret_target);
void target_deinit(struct target *target);

/* Closes the handles and the client; the streams and the context stay. May be called twice. */
void target_disconnect(struct target *target);

/* Makes a target, measures with it, and frees it. */
int target_run(const struct options *options, struct rows *rows,
               int (*measure)(struct target *target, const struct options *options,
                              struct rows *rows));

/* Makes the context current in the calling thread. */
int target_enter(const struct target *target);

/* Prints the failure of `what`, if it failed, and returns an error. */
int target_check(const char *what, int result);

/* The same for a driver call, whose error text is the driver's. */
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

/* The same with the stream's handle. */
static inline int target_handle_alloc(struct target *target, unsigned stream, uint64_t n_bytes,
                                      void **ret_pointer)
{
        return gpumem_stream_alloc(target->handles[stream], n_bytes, ret_pointer);
}

static inline int target_handle_free(struct target *target, unsigned stream, void *pointer)
{
        return gpumem_stream_free(target->handles[stream], pointer);
}

/* For the first stream, with the signature of replace.h. */
static inline int target_replace_alloc(void *target, uint64_t n_bytes, void **ret_pointer)
{
        return target_alloc(target, 0, n_bytes, ret_pointer);
}

static inline int target_replace_free(void *target, void *pointer)
{
        return target_free(target, 0, pointer);
}

static inline int target_replace_handle_alloc(void *target, uint64_t n_bytes, void **ret_pointer)
{
        return target_handle_alloc(target, 0, n_bytes, ret_pointer);
}

static inline int target_replace_handle_free(void *target, void *pointer)
{
        return target_handle_free(target, 0, pointer);
}

/* Statistics of the device's pool. */
int target_stats(struct target *target, struct gpumem_stats *ret_stats);

/* Adds a row: the share of the client's allocations of device memory that needed no message. */
int target_add_hits(struct target *target, const char *name, struct rows *rows);
