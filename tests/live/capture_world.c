/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/capture_world.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/live/daemon.h"
#include "tests/suite.h"

static struct daemon gpumemd;
struct holder holder;
struct gpu *gpu;
struct cuda cuda;
struct capturer capturer;
struct gate gate;
struct gpumem_client *client;
CUstream captured, branch, side;

static CUstream stream_new(void)
{
        CUstream stream;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING), 0);
        return stream;
}

static void start(const char *const *options)
{
        char reason[CUDA_REASON_MAX];

        daemon_start(&gpumemd, "devices=1,bytes=288MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&holder);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        captured = stream_new();
        branch = stream_new();
        side = stream_new();
        capturer_init(&capturer, &cuda);
        gate_init(&gate, &cuda);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

void world_start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};

        start(options);
}

void world_start_vmm(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", "--pinned-backing", "vmm",
                                              NULL};

        start(options);
}

void world_stop(void)
{
        gate_deinit(&gate);
        holder_end(&holder);
        if (client)
                gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

void world_fault(const char *faults)
{
        daemon_fault(&gpumemd, getpid(), faults);
}

int world_alloc(void *stream, uint64_t n_bytes, uint32_t wait_ms, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = stream,
                                         .n_bytes = n_bytes,
                                         .wait_ms = wait_ms};

        return gpumem_alloc(client, &request, ret_pointer);
}

void *world_must_alloc(void *stream, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(world_alloc(stream, n_bytes, LONG_MS, &pointer), 0);
        return pointer;
}

void world_must_free(void *pointer, void *stream)
{
        ck_assert_int_eq(gpumem_free(client, pointer, stream), 0);
}

static CUdeviceptr address_of(const void *pointer)
{
        return (CUdeviceptr)(uintptr_t)pointer;
}

void world_fill(const void *pointer, unsigned char byte, uint64_t n_bytes, CUstream stream)
{
        ck_assert_int_eq(
                CUDA_CALL(&cuda, cuMemsetD8Async, address_of(pointer), byte, n_bytes, stream), 0);
}

void world_copy(const void *to, const void *from, uint64_t n_bytes, CUstream stream)
{
        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyDtoDAsync, address_of(to), address_of(from),
                                   n_bytes, stream),
                         0);
}

void world_check(const void *pointer, unsigned char byte, uint64_t n_bytes)
{
        unsigned char *bytes = malloc(n_bytes);
        uint64_t n_wrong = 0;

        ck_assert_ptr_nonnull(bytes);
        ck_assert_int_eq(
                CUDA_CALL(&cuda, cuMemcpyDtoHAsync, bytes, address_of(pointer), n_bytes, side), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong += bytes[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
        free(bytes);
}

struct gpumem_stats world_stats(void)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        return stats;
}

void world_everything_is_free(void)
{
        ck_assert_uint_eq(world_stats().n_allocated_bytes, 0);
        ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
        holder_free_all(&holder);
}

void world_order(CUstream later, CUstream earlier)
{
        CUevent event;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventRecord, event, earlier), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamWaitEvent, later, event, 0), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventDestroy, event), 0);
}

uint64_t world_begin_pool(uint64_t id, CUstream stream)
{
        uint64_t given = 0;

        ck_assert_int_eq(gpumem_graph_pool_begin(client, id, stream, &given), 0);
        ck_assert_uint_ne(given, 0);
        ck_assert(!id || given == id);
        return given;
}

void world_end_pool(uint64_t id, CUstream stream)
{
        ck_assert_int_eq(gpumem_graph_pool_end(client, id, stream), 0);
}
