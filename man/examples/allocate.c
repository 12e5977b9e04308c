/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory on a stream: the GPU fills it, a copy brings it to pinned memory, and the CPU checks it. */
#include <cuda.h>
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)      check((call), #call)
#define CHECK_CUDA(call) check_cuda((call), #call)
#define N_WORDS          (1U << 20)
#define N_BYTES          (N_WORDS * sizeof(uint32_t))
#define PATTERN          UINT32_C(0xC0FFEE)

/* Ends the program if a call failed. The refusal has more than the result's one sentence. */
static void check(int result, const char *call)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        if (result == 0)
                return;
        (void)fprintf(stderr, "%s: %s\n", call, gpumem_strerror(result));
        if (gpumem_last_refusal(NULL, &refusal) == 0)
                (void)fprintf(stderr, "%s\n", refusal.text);
        exit(EXIT_FAILURE);
}

static void check_cuda(CUresult result, const char *call)
{
        if (result == CUDA_SUCCESS)
                return;
        (void)fprintf(stderr, "%s: CUDA error %d\n", call, (int)result);
        exit(EXIT_FAILURE);
}

static void count_words(const uint32_t *words)
{
        size_t n_right = 0;

        for (size_t i = 0; i < N_WORDS; i++)
                n_right += words[i] == PATTERN;
        printf("%zu of %u words are right\n", n_right, N_WORDS);
        if (n_right != N_WORDS)
                exit(EXIT_FAILURE);
}

int main(void)
{
        void *on_device, *on_host;
        CUcontext context;
        CUdevice device;
        CUstream stream;

        CHECK_CUDA(cuInit(0));
        CHECK_CUDA(cuDeviceGet(&device, 0));
        CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
        CHECK_CUDA(cuCtxSetCurrent(context));
        CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

        /* Until the reservation ends, no other process gets these 64 MiB. It may wait 10 s for them. */
        CHECK(gpumem_reserve(NULL, 0, 64U << 20, 10000));
        CHECK(gpumem_malloc(N_BYTES, stream, &on_device));
        CHECK(gpumem_malloc_pinned(N_BYTES, &on_host));

        CHECK_CUDA(cuMemsetD32Async((CUdeviceptr)on_device, PATTERN, N_WORDS, stream));
        CHECK_CUDA(cuMemcpyDtoHAsync(on_host, (CUdeviceptr)on_device, N_BYTES, stream));
        /* The free is ordered after the copy, so nothing waits here. */
        CHECK(gpumem_free(NULL, on_device, stream));

        CHECK_CUDA(cuStreamSynchronize(stream));
        count_words(on_host);
        CHECK(gpumem_free(NULL, on_host, stream));
        CHECK(gpumem_reserve(NULL, 0, 0, 0));
        CHECK_CUDA(cuStreamDestroy(stream));
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
        return 0;
}
