/* SPDX-License-Identifier: Apache-2.0 */
/* Two graphs share the memory of a graph pool. Each allocates its scratch memory in its capture, and frees it
 * there, so that the second graph uses the memory of the first. They run one after another. */
#include <cuda.h>
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)      check((call), #call)
#define CHECK_CUDA(call) check_cuda((call), #call)
#define N_GRAPHS         2U
#define N_RUNS           3U
#define N_WORDS          (1U << 20)
#define N_BYTES          (N_WORDS * sizeof(uint32_t))

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

/* A graph that fills scratch memory with `value`, and brings its last word to `result`. */
static CUgraphExec capture(CUstream stream, uint32_t value, uint32_t *result, void **ret_scratch)
{
        CUgraphExec executable;
        CUdeviceptr last_word;
        CUgraph graph;
        void *scratch;

        CHECK(gpumem_before_capture(NULL));
        CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(gpumem_malloc(N_BYTES, stream, &scratch));
        last_word = (CUdeviceptr)scratch + N_BYTES - sizeof(uint32_t);
        CHECK_CUDA(cuMemsetD32Async((CUdeviceptr)scratch, value, N_WORDS, stream));
        CHECK_CUDA(cuMemcpyDtoHAsync(result, last_word, sizeof(uint32_t), stream));
        CHECK(gpumem_free(NULL, scratch, stream));
        CHECK_CUDA(cuStreamEndCapture(stream, &graph));
        CHECK(gpumem_after_capture(NULL));
        CHECK_CUDA(cuGraphInstantiate(&executable, graph, 0));
        CHECK_CUDA(cuGraphDestroy(graph));
        *ret_scratch = scratch;
        return executable;
}

static void run(CUgraphExec executable, CUstream stream, const uint32_t *result, uint32_t value)
{
        CHECK_CUDA(cuGraphLaunch(executable, stream));
        CHECK_CUDA(cuStreamSynchronize(stream));
        if (*result == value)
                return;
        (void)fprintf(stderr, "the graph wrote %u instead of %u\n", (unsigned)*result,
                      (unsigned)value);
        exit(EXIT_FAILURE);
}

int main(void)
{
        void *results, *scratch[N_GRAPHS];
        CUgraphExec graphs[N_GRAPHS];
        CUcontext context;
        CUdevice device;
        CUstream stream;
        uint32_t *words;
        uint64_t pool;

        CHECK_CUDA(cuInit(0));
        CHECK_CUDA(cuDeviceGet(&device, 0));
        CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, device));
        CHECK_CUDA(cuCtxSetCurrent(context));
        CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(gpumem_malloc_pinned(N_GRAPHS * sizeof(uint32_t), &results));
        words = results;

        CHECK(gpumem_graph_pool_begin(NULL, 0, stream, &pool));
        for (uint32_t i = 0; i < N_GRAPHS; i++)
                graphs[i] = capture(stream, 100 + i, &words[i], &scratch[i]);
        CHECK(gpumem_graph_pool_end(NULL, pool, stream));

        for (uint32_t i = 0; i < N_RUNS * N_GRAPHS; i++)
                run(graphs[i % N_GRAPHS], stream, &words[i % N_GRAPHS], 100 + i % N_GRAPHS);
        printf("%u runs are right; the graphs %s their memory\n", N_RUNS * N_GRAPHS,
               scratch[0] == scratch[1] ? "share" : "do not share");

        for (uint32_t i = 0; i < N_GRAPHS; i++)
                CHECK_CUDA(cuGraphExecDestroy(graphs[i]));
        CHECK(gpumem_free(NULL, results, stream));
        CHECK_CUDA(cuStreamDestroy(stream));
        CHECK_CUDA(cuDevicePrimaryCtxRelease(device));
        return 0;
}
