/* SPDX-License-Identifier: Apache-2.0 */
/* A loader: the CPU writes batches into a ring of pinned memory, one stream copies them to the device, and
 * another stream works on them. Each batch has device memory of its own, which is freed in order. */
#include <cuda.h>
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)      check((call), #call)
#define CHECK_CUDA(call) check_cuda((call), #call)
#define N_SLOTS          4U
#define N_BATCHES        64U
#define N_WORDS          (1U << 18)
#define BATCH_BYTES      (N_WORDS * sizeof(uint32_t))

struct loader {
        CUstream copies, work;
        struct gpumem_stream *batches; /* allocates in `copies` */
        uint32_t *ring;                /* N_SLOTS batches of pinned memory */
        CUevent copied[N_SLOTS];       /* the slot's last copy is over */
        uint32_t *results;             /* a word for each batch, pinned too */
};

static void check(int result, const char *call)
{
        if (result == 0)
                return;
        (void)fprintf(stderr, "%s: %s\n", call, gpumem_strerror(result));
        exit(EXIT_FAILURE);
}

static void check_cuda(CUresult result, const char *call)
{
        if (result == CUDA_SUCCESS)
                return;
        (void)fprintf(stderr, "%s: CUDA error %d\n", call, (int)result);
        exit(EXIT_FAILURE);
}

static void begin(struct loader *loader)
{
        void *ring, *results;

        CHECK_CUDA(cuStreamCreate(&loader->copies, CU_STREAM_NON_BLOCKING));
        CHECK_CUDA(cuStreamCreate(&loader->work, CU_STREAM_NON_BLOCKING));
        CHECK(gpumem_stream_open(NULL, loader->copies, &loader->batches));
        CHECK(gpumem_malloc_pinned(N_SLOTS * BATCH_BYTES, &ring));
        CHECK(gpumem_malloc_pinned(N_BATCHES * sizeof(uint32_t), &results));
        loader->ring = ring;
        loader->results = results;
        for (unsigned i = 0; i < N_SLOTS; i++)
                CHECK_CUDA(cuEventCreate(&loader->copied[i], CU_EVENT_DISABLE_TIMING));
}

/* The CPU may write a slot again when its last copy is over. A new event counts as over. */
static const uint32_t *fill_slot(struct loader *loader, uint32_t number)
{
        uint32_t *slot = loader->ring + (size_t)(number % N_SLOTS) * N_WORDS;

        CHECK_CUDA(cuEventSynchronize(loader->copied[number % N_SLOTS]));
        for (size_t i = 0; i < N_WORDS; i++)
                slot[i] = number;
        return slot;
}

/* Stands for a kernel: it brings the last word of the batch back. */
static void work_on(struct loader *loader, void *batch, uint32_t number)
{
        CUdeviceptr last_word = (CUdeviceptr)batch + BATCH_BYTES - sizeof(uint32_t);

        CHECK_CUDA(cuMemcpyDtoHAsync(&loader->results[number], last_word, sizeof(uint32_t),
                                     loader->work));
}

static void load(struct loader *loader, uint32_t number)
{
        const uint32_t *slot = fill_slot(loader, number);
        void *batch;

        CHECK(gpumem_stream_alloc(loader->batches, BATCH_BYTES, &batch));
        CHECK_CUDA(cuMemcpyHtoDAsync((CUdeviceptr)batch, slot, BATCH_BYTES, loader->copies));
        CHECK_CUDA(cuEventRecord(loader->copied[number % N_SLOTS], loader->copies));
        CHECK(gpumem_stream_wait(NULL, loader->work, loader->copies));
        work_on(loader, batch, number);
        /* The free waits for nothing. The memory is not reused until both streams have come so far. */
        CHECK(gpumem_record_use(NULL, batch, loader->work));
        CHECK(gpumem_stream_free(loader->batches, batch));
}

static void check_results(const struct loader *loader)
{
        unsigned n_right = 0;

        for (uint32_t i = 0; i < N_BATCHES; i++)
                n_right += loader->results[i] == i;
        printf("%u of %u batches are right\n", n_right, N_BATCHES);
        if (n_right != N_BATCHES)
                exit(EXIT_FAILURE);
}

static void end(struct loader *loader)
{
        CHECK(gpumem_free(NULL, loader->ring, loader->copies));
        CHECK(gpumem_free(NULL, loader->results, loader->work));
        for (unsigned i = 0; i < N_SLOTS; i++)
                CHECK_CUDA(cuEventDestroy(loader->copied[i]));
        /* The handle ends before its stream. */
        CHECK(gpumem_stream_close(loader->batches));
        CHECK_CUDA(cuStreamDestroy(loader->copies));
        CHECK_CUDA(cuStreamDestroy(loader->work));
}

int main(void)
{
        struct loader loader;
        CUcontext context;
        CUdevice device;

        CHECK_CUDA(cuInit(0));
        CHECK_CUDA(cuDeviceGet(&device, 0));
        CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
        CHECK_CUDA(cuCtxSetCurrent(context));
        begin(&loader);
        for (uint32_t i = 0; i < N_BATCHES; i++)
                load(&loader, i);
        CHECK_CUDA(cuStreamSynchronize(loader.work));
        check_results(&loader);
        end(&loader);
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
        return 0;
}
