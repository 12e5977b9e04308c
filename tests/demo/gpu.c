/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/demo/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"

#define STAGING_BYTES (GPU_CELLS_MAX * 64 * KIB)

struct gpu {
        struct cuda cuda;
        int ordinal;
        CUcontext context;
        CUstream stream;
        unsigned char *staging;
        uint64_t n_staged;
};

static int told(int r)
{
        if (r)
                (void)fprintf(stderr, "%s\n", cuda_failure());
        return r > 0 ? -EIO : r;
}

int gpu_use(struct gpu *gpu)
{
        return told(CUDA_CALL(&gpu->cuda, cuCtxSetCurrent, gpu->context));
}

int gpu_use_none(struct gpu *gpu)
{
        return told(CUDA_CALL(&gpu->cuda, cuCtxSetCurrent, NULL));
}

static int open_context(struct gpu *gpu)
{
        CUdevice device;
        int r;

        r = CUDA_CALL(&gpu->cuda, cuDeviceGet, &device, gpu->ordinal);
        if (!r)
                r = CUDA_CALL(&gpu->cuda, cuDevicePrimaryCtxRetain, &gpu->context, device);
        return told(r);
}

static int open_stream(struct gpu *gpu)
{
        int r = CUDA_CALL(&gpu->cuda, cuStreamCreate, &gpu->stream, CU_STREAM_NON_BLOCKING);

        if (!r)
                r = CUDA_CALL(&gpu->cuda, cuMemHostRegister, gpu->staging, STAGING_BYTES,
                              CU_MEMHOSTREGISTER_PORTABLE);
        return told(r);
}

int gpu_new(int ordinal, struct gpu **ret_gpu)
{
        char reason[CUDA_REASON_MAX];
        struct gpu *gpu = calloc(1, sizeof(*gpu));
        int r = -ENOMEM;

        if (!gpu)
                return r;
        gpu->ordinal = ordinal;
        gpu->staging = aligned_alloc(4096, STAGING_BYTES);
        if (gpu->staging && cuda_load(NULL, &gpu->cuda, reason)) {
                (void)fprintf(stderr, "no CUDA driver: %s\n", reason);
                r = -ENODEV;
        } else if (gpu->staging) {
                r = open_context(gpu);
                if (!r)
                        r = gpu_use(gpu);
                if (!r)
                        r = open_stream(gpu);
        }
        if (r) {
                gpu_free(gpu);
                return r;
        }
        *ret_gpu = gpu;
        return 0;
}

struct gpu *gpu_free(struct gpu *gpu)
{
        CUdevice device;

        if (!gpu)
                return NULL;
        if (gpu->context && gpu_use(gpu) == 0) {
                if (gpu->stream) {
                        (void)gpu_synchronize(gpu);
                        (void)told(CUDA_CALL(&gpu->cuda, cuMemHostUnregister, gpu->staging));
                        (void)told(CUDA_CALL(&gpu->cuda, cuStreamDestroy, gpu->stream));
                }
                if (CUDA_CALL(&gpu->cuda, cuDeviceGet, &device, gpu->ordinal) == 0)
                        (void)told(CUDA_CALL(&gpu->cuda, cuDevicePrimaryCtxRelease, device));
        }
        free(gpu->staging);
        free(gpu);
        return NULL;
}

void *gpu_stream(const struct gpu *gpu)
{
        return gpu->stream;
}

int gpu_restart(struct gpu *gpu)
{
        gpu->n_staged = 0;
        return gpu_synchronize(gpu);
}

int gpu_stage(struct gpu *gpu, uint64_t n_bytes, void **ret_bytes)
{
        if (gpu->n_staged + n_bytes > STAGING_BYTES) {
                int r = gpu_restart(gpu);

                if (r)
                        return r;
        }
        *ret_bytes = gpu->staging + gpu->n_staged;
        gpu->n_staged += n_bytes;
        return 0;
}

int gpu_copy_to_device(struct gpu *gpu, void *to, const void *staged, uint64_t n_bytes)
{
        return told(CUDA_CALL(&gpu->cuda, cuMemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)to, staged,
                              n_bytes, gpu->stream));
}

static int copy_to_host(struct gpu *gpu, void *staged, const void *from, uint64_t n_bytes,
                        CUstream stream)
{
        return told(CUDA_CALL(&gpu->cuda, cuMemcpyDtoHAsync, staged, (CUdeviceptr)(uintptr_t)from,
                              n_bytes, stream));
}

int gpu_copy_to_host(struct gpu *gpu, void *staged, const void *from, uint64_t n_bytes)
{
        return copy_to_host(gpu, staged, from, n_bytes, gpu->stream);
}

int gpu_copy_to_host_by_default(struct gpu *gpu, void *staged, const void *from, uint64_t n_bytes)
{
        return copy_to_host(gpu, staged, from, n_bytes, NULL);
}

int gpu_fill(struct gpu *gpu, void *to, unsigned char byte, uint64_t n_bytes)
{
        return told(CUDA_CALL(&gpu->cuda, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)to, byte,
                              n_bytes, gpu->stream));
}

int gpu_order_after(struct gpu *gpu, struct gpu *earlier)
{
        CUevent event;
        int r, r_destroy;

        r = gpu_use(earlier);
        if (!r)
                r = told(CUDA_CALL(&gpu->cuda, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
        if (r)
                return r;
        r = told(CUDA_CALL(&gpu->cuda, cuEventRecord, event, earlier->stream));
        if (!r)
                r = gpu_use(gpu);
        if (!r)
                r = told(CUDA_CALL(&gpu->cuda, cuStreamWaitEvent, gpu->stream, event, 0));
        r_destroy = told(CUDA_CALL(&gpu->cuda, cuEventDestroy, event));
        return r ? r : r_destroy;
}

int gpu_synchronize(struct gpu *gpu)
{
        return told(CUDA_CALL(&gpu->cuda, cuStreamSynchronize, gpu->stream));
}

int gpu_memory(struct gpu *gpu, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes)
{
        size_t n_free, n_total;
        int r = gpu_use(gpu);

        if (!r)
                r = told(CUDA_CALL(&gpu->cuda, cuMemGetInfo, &n_free, &n_total));
        if (r)
                return r;
        *ret_free_bytes = n_free;
        *ret_total_bytes = n_total;
        return 0;
}
