/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/capture_world.h"

#include "tests/live/support/world.h"

struct holder holder;
struct gpu *gpu;
struct cuda cuda;
struct capturer capturer;
struct gate gate;
struct gpumem_client *client;
CUstream captured, branch, side;

CUstream world_new_stream(void)
{
        CUstream stream;

        DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        return stream;
}

static void start(const char *pinned_backing)
{
        daemon_start(&gpumemd, "devices=1,bytes=288MiB",
                     OPTIONS("--device-bytes", "256MiB", "--pinned-backing", pinned_backing));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&holder);
        gpu = use_gpu();
        load_driver(&cuda);
        captured = world_new_stream();
        branch = world_new_stream();
        side = world_new_stream();
        capturer_init(&capturer, &cuda);
        gate_init(&gate, &cuda);
        client = connect_client();
}

void world_start(void)
{
        start("memfd");
}

void world_start_vmm(void)
{
        start("vmm");
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
        struct gpumem_request request = request_in(stream, GPUMEM_DEVICE, n_bytes);

        request.wait_ms = wait_ms;
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

void *world_alloc_as(enum gpumem_kind kind, void *stream, uint64_t n_bytes, uint32_t flags)
{
        struct gpumem_request request = request_in(stream, kind, n_bytes);
        void *pointer;

        request.flags = flags;
        request.wait_ms = LONG_MS;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

void world_pass(void *stream, uint64_t n_bytes)
{
        world_must_free(world_must_alloc(stream, n_bytes), stream);
}

void world_synchronize(CUstream stream)
{
        DRIVER(cuStreamSynchronize, stream);
}

static CUdeviceptr address_of(const void *pointer)
{
        return (CUdeviceptr)(uintptr_t)pointer;
}

void world_fill(const void *pointer, unsigned char byte, uint64_t n_bytes, CUstream stream)
{
        DRIVER(cuMemsetD8Async, address_of(pointer), byte, n_bytes, stream);
}

void world_copy(const void *to, const void *from, uint64_t n_bytes, CUstream stream)
{
        DRIVER(cuMemcpyDtoDAsync, address_of(to), address_of(from), n_bytes, stream);
}

void world_check(const void *pointer, unsigned char byte, uint64_t n_bytes)
{
        unsigned char *bytes = malloc(n_bytes);
        uint64_t n_wrong = 0;

        ck_assert_ptr_nonnull(bytes);
        DRIVER(cuMemcpyDtoHAsync, bytes, address_of(pointer), n_bytes, side);
        DRIVER(cuStreamSynchronize, side);
        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong += bytes[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
        free(bytes);
}

struct gpumem_stats world_stats(void)
{
        return nearest_stats(client, GPUMEM_DEVICE);
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

        DRIVER(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
        DRIVER(cuEventRecord, event, earlier);
        DRIVER(cuStreamWaitEvent, later, event, 0);
        DRIVER(cuEventDestroy, event);
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
