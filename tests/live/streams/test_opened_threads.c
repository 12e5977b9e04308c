/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads use one handle of a stream, while others want its memory for streams of theirs. Each fills what it
 * allocates, has the bytes copied, and frees at once: the copy begins late. No byte may be another's. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/live/support/world.h"
#include "tests/random.h"

#define N_THREADS 8
#define N_OTHERS  2
#define N_STREAMS 4 /* of each other */
#define N_ROUNDS  40
#define N_BYTES   (2 * MIB) /* at most */
#define OTHERS    0xee

static struct gpumem_client *client;
static struct cuda cuda;
static CUcontext context;
static CUstream shared;
static struct gpumem_stream *handle; /* of `shared` */
static unsigned char *staging;       /* N_BYTES a thread */
static _Atomic unsigned n_failed, n_wrong_bytes, n_filled;
static _Atomic bool is_over;

static void start(void)
{
        CUdevice device;

        daemon_start(&gpumemd, "devices=1,bytes=256MiB,copy_delay_us=500",
                     OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        load_driver(&cuda);
        DRIVER(cuDeviceGet, &device, 0);
        DRIVER(cuDevicePrimaryCtxRetain, &context, device);
        DRIVER(cuCtxSetCurrent, context);
        staging = aligned_alloc(4096, N_THREADS * N_BYTES);
        ck_assert_ptr_nonnull(staging);
        DRIVER(cuMemHostRegister, staging, N_THREADS * N_BYTES, CU_MEMHOSTREGISTER_PORTABLE);
        DRIVER(cuStreamCreate, &shared, CU_STREAM_NON_BLOCKING);
        client = connect_client();
        ck_assert_int_eq(gpumem_stream_open(client, shared, &handle), 0);
}

static void stop(void)
{
        ck_assert_int_eq(gpumem_stream_close(handle), 0);
        gpumem_disconnect(client);
        DRIVER(cuStreamDestroy, shared);
        DRIVER(cuMemHostUnregister, staging);
        free(staging);
        gpumemd_stop_uncharged();
}

static void must(int r)
{
        n_failed += r != 0;
}

static CUdeviceptr at(const void *pointer)
{
        return (CUdeviceptr)(uintptr_t)pointer;
}

static void count_wrong(const unsigned char *bytes, unsigned char byte, uint64_t n_bytes)
{
        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong_bytes += bytes[i] != byte;
}

/* The memory is free while the copy still waits. What other threads allocate then comes after it in the stream. */
static void fill_and_copy(struct test_random *random, unsigned char byte, unsigned char *to)
{
        uint64_t n_bytes = 1 + test_random_below(random, N_BYTES);
        void *pointer;
        int r = gpumem_stream_alloc(handle, n_bytes, &pointer);

        must(r);
        if (r)
                return;
        must(CUDA_CALL(&cuda, cuMemsetD8Async, at(pointer), byte, n_bytes, shared));
        must(CUDA_CALL(&cuda, cuMemcpyDtoHAsync, to, at(pointer), n_bytes, shared));
        must(gpumem_stream_free(handle, pointer));
        must(CUDA_CALL(&cuda, cuStreamSynchronize, shared));
        count_wrong(to, byte, n_bytes);
}

static void *use_handle(void *argument)
{
        unsigned number = (unsigned)(uintptr_t)argument;
        struct test_random random = {number + 1};

        must(CUDA_CALL(&cuda, cuCtxSetCurrent, context));
        for (unsigned i = 0; i < N_ROUNDS; i++)
                fill_and_copy(&random, (unsigned char)(16 * number + i % 16),
                              staging + number * N_BYTES);
        return NULL;
}

static void fill_and_free(struct test_random *random, CUstream stream)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = stream,
                                         .n_bytes = 1 + test_random_below(random, 4 * N_BYTES)};
        void *pointer;
        int r = gpumem_alloc(client, &request, &pointer);

        must(r);
        if (r)
                return;
        must(CUDA_CALL(&cuda, cuMemsetD8Async, at(pointer), OTHERS, request.n_bytes, stream));
        must(gpumem_free(client, pointer, stream));
        must(CUDA_CALL(&cuda, cuStreamSynchronize, stream));
        n_filled++;
}

/* Streams whose heaps grow and shrink: they take what is idle in the heap of `shared`. */
static void *want_memory(void *argument)
{
        struct test_random random = {100 + (unsigned)(uintptr_t)argument};
        CUstream streams[N_STREAMS] = {NULL};

        must(CUDA_CALL(&cuda, cuCtxSetCurrent, context));
        for (unsigned i = 0; i < N_STREAMS; i++)
                must(CUDA_CALL(&cuda, cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING));
        while (!atomic_load(&is_over))
                fill_and_free(&random, streams[test_random_below(&random, N_STREAMS)]);
        for (unsigned i = 0; i < N_STREAMS; i++)
                must(CUDA_CALL(&cuda, cuStreamDestroy, streams[i]));
        return NULL;
}

TEST(eight_threads_on_one_handle)
{
        pthread_t threads[N_THREADS], others[N_OTHERS];

        for (unsigned i = 0; i < N_OTHERS; i++)
                ck_assert_int_eq(
                        pthread_create(&others[i], NULL, want_memory, (void *)(uintptr_t)i), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(
                        pthread_create(&threads[i], NULL, use_handle, (void *)(uintptr_t)i), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        atomic_store(&is_over, true);
        for (unsigned i = 0; i < N_OTHERS; i++)
                ck_assert_int_eq(pthread_join(others[i], NULL), 0);
        ck_assert_uint_eq(n_failed, 0);
        ck_assert_uint_gt(n_filled, 0);
        ck_assert_uint_eq(n_wrong_bytes, 0);
}

/* Each opens and closes for itself: the handle lives as long as one of them has it open. */
static void *open_and_close(void *argument)
{
        for (unsigned i = 0; i < 10 * N_ROUNDS; i++) {
                struct gpumem_stream *own;
                void *pointer = NULL;

                must(gpumem_stream_open(client, shared, &own));
                must(own != handle);
                must(gpumem_stream_alloc(own, 4096, &pointer));
                must(gpumem_stream_free(own, pointer));
                must(gpumem_stream_close(own));
        }
        return argument;
}

TEST(threads_open_and_close_it)
{
        pthread_t threads[N_THREADS];

        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(n_failed, 0);
}

TESTS_MAIN("opened_threads", .limit_s = 120, .start = start, .stop = stop)
