/* Where a rival in C plays: the first device's context and streams of it, and calls of the driver that
 * the library has no use for. A stage may be used by any thread that calls stage_enter. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

#define STAGE_STREAMS 16

struct stage {
        struct cuda cuda;
        CUdevice device;
        CUcontext context;
        CUstream streams[STAGE_STREAMS];
        CUdeviceptr target; /* of copies, STAGE_COPY_BYTES; 0: not made yet */
        struct {
                __typeof__(cuMemAlloc) *alloc;
                __typeof__(cuMemFree) *free;
                __typeof__(cuMemHostAlloc) *host_alloc;
                __typeof__(cuMemFreeHost) *host_free;
                /* NULL: the driver has no such memory. */
                __typeof__(cuMemAllocAsync) *alloc_async;
                __typeof__(cuMemFreeAsync) *free_async;
                __typeof__(cuDeviceGetDefaultMemPool) *pool_of;
                __typeof__(cuMemPoolSetAttribute) *pool_set;
                __typeof__(cuMemPoolTrimTo) *pool_trim;
        } calls;
};

#define STAGE_COPY_BYTES (UINT64_C(2) << 20)

/* Failures of this and the others are told by stage_failure. */
int stage_init(struct stage *ret_stage);
int stage_enter(const struct stage *stage);

/* A result of one of `calls`, as the rest of the project has it. */
int stage_check(const struct stage *stage, const char *call, CUresult result);

/* What the calling thread was told last. */
const char *stage_failure(void);

/* The copy's bytes have arrived when it returns. */
int stage_prepare_copy(struct stage *stage);
int stage_copy(struct stage *stage, const void *from);
