/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that a network adapter may reach, and its dma-buf. */
#include <cuda.h>
#include <gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(call)      check((call), #call)
#define CHECK_CUDA(call) check_cuda((call), #call)
#define N_BYTES          (16U << 20)

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

/* Without GPUDirect RDMA the memory still has a block of its own, and what is sent is copied to pinned memory first. */
static void *allocate(void)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = GPUMEM_DEVICE,
                .n_bytes = N_BYTES,
                .flags = GPUMEM_RDMA,
        };
        void *memory;

        if (gpumem_alloc(NULL, &request, &memory) == 0)
                return memory;
        request.flags = GPUMEM_REGISTERED;
        CHECK(gpumem_alloc(NULL, &request, &memory));
        return memory;
}

int main(void)
{
        CUcontext context;
        CUdevice device;
        void *memory;
        int dma_buf;

        CHECK_CUDA(cuInit(0));
        CHECK_CUDA(cuDeviceGet(&device, 0));
        CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
        CHECK_CUDA(cuCtxSetCurrent(context));

        memory = allocate();
        CHECK(gpumem_export_dmabuf(NULL, memory, N_BYTES, &dma_buf));
        /* Here the program has its network adapter import the dma-buf:
         *     region = ibv_reg_dmabuf_mr(domain, 0, N_BYTES, (uint64_t)memory, dma_buf, access);
         * and at the end ibv_dereg_mr(region), before the memory is freed. */
        printf("a dma-buf of %u MiB\n", N_BYTES >> 20);
        (void)close(dma_buf);
        CHECK(gpumem_free(NULL, memory, NULL));
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
        return 0;
}
