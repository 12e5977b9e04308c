/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are destroyed, and handles that another stream gets at once: memory of the first is freed in
 * the order of the second, and is not reused before the second one's work is over. */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/live/support/world.h"

#define N_BYTES   (2 * MIB)
#define N_THREADS 4
#define N_ROUNDS  40
#define N_TRIES   64

/* With the version that <cuda.h> gives it. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct gpumem_client *client;
static struct cuda cuda;
static CUcontext contexts[2];  /* of one device */
static unsigned char *staging; /* N_BYTES a thread */
static _Atomic unsigned n_wrong, n_reused;

static void use(unsigned context)
{
        DRIVER(cuCtxSetCurrent, contexts[context]);
}

/* The project itself makes none, and has no such calls in its table. */
static void *find_call(const char *name)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW), *call;

        ck_assert_ptr_nonnull(library);
        call = dlsym(library, name);
        ck_assert_ptr_nonnull(call);
        return call;
}

static void make_contexts(void)
{
        __typeof__(cuCtxCreate) *create = (__typeof__(create))find_call(NAME_OF(cuCtxCreate));
        CUdevice device;

        DRIVER(cuDeviceGet, &device, 0);
        DRIVER(cuDevicePrimaryCtxRetain, &contexts[0], device);
        ck_assert_int_eq(create(&contexts[1], NULL, 0, device), CUDA_SUCCESS);
}

/* None, a small one, and what was needed lately. */
static const char *const caches[] = {"0", "8MiB", NULL};

static void start(const char *cache_size)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB,copy_delay_us=2000",
                     OPTIONS("--device-bytes", "256MiB"));
        if (cache_size)
                ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", cache_size, 1), 0);
        else
                ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        load_driver(&cuda);
        make_contexts();
        use(0);
        staging = aligned_alloc(4096, N_THREADS * N_BYTES);
        ck_assert_ptr_nonnull(staging);
        DRIVER(cuMemHostRegister, staging, N_THREADS * N_BYTES, CU_MEMHOSTREGISTER_PORTABLE);
        client = connect_client();
}

static void stop(void)
{
        gpumem_disconnect(client);
        use(0);
        DRIVER(cuMemHostUnregister, staging);
        free(staging);
        gpumemd_stop_uncharged();
}

static CUstream new_stream(void)
{
        CUstream stream = NULL;

        if (CUDA_CALL(&cuda, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING))
                n_wrong++;
        return stream;
}

static void end_stream(CUstream stream)
{
        if (CUDA_CALL(&cuda, cuStreamDestroy, stream))
                n_wrong++;
}

static void *alloc_in(CUstream stream)
{
        struct gpumem_request request = request_in(stream, GPUMEM_DEVICE, N_BYTES);
        void *pointer = NULL;

        request.wait_ms = 10000;
        if (gpumem_alloc(client, &request, &pointer))
                n_wrong++;
        return pointer;
}

/* A stream of that handle in the present context. NULL: the driver gives other handles. */
static CUstream again(CUstream handle)
{
        CUstream streams[N_TRIES];
        unsigned n = 0, i;
        CUstream found = NULL;

        do
                streams[n] = new_stream();
        while (streams[n++] != handle && n < N_TRIES);
        for (i = 0; i < n; i++) {
                if (streams[i] == handle)
                        found = handle;
                else
                        end_stream(streams[i]);
        }
        return found;
}

/* The bytes are read by work that begins late: that of the second stream, which is of the same context or another. */
TEST(by_a_stream_of_the_same_or_another_context, .to = 2 * ARRAY_SIZE(caches))
{
        CUstream first, second;
        void *pointer;

        start(caches[_i / 2]);
        first = new_stream();
        pointer = alloc_in(first);
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 0x5a, N_BYTES, first);
        DRIVER(cuStreamSynchronize, first);
        end_stream(first);
        use((unsigned)_i % 2);
        second = again(first);
        if (!second) {
                (void)puts("# the driver did not use the handle again");
                second = new_stream();
        }
        for (unsigned i = 0; i < 8; i++)
                DRIVER(cuMemcpyDtoHAsync, staging, (CUdeviceptr)(uintptr_t)pointer, N_BYTES,
                       second);
        use(0);
        ck_assert_int_eq(gpumem_free(client, pointer, second), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        DRIVER(cuStreamQuery, second);
        ck_assert_uint_eq(staging[0], 0x5a);
        ck_assert_int_eq(memcmp(staging, staging + 1, N_BYTES - 1), 0);
        end_stream(second);
}

/* Filled in one stream, read in another one that is ordered after it, and freed there. */
static void fill_and_read(unsigned char byte, unsigned char *read)
{
        CUstream first = new_stream(), second;
        void *pointer = alloc_in(first);
        CUevent filled = NULL;
        int r;

        r = CUDA_CALL(&cuda, cuEventCreate, &filled, CU_EVENT_DISABLE_TIMING);
        if (!r)
                r = CUDA_CALL(&cuda, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, byte,
                              N_BYTES, first);
        if (!r)
                r = CUDA_CALL(&cuda, cuEventRecord, filled, first);
        end_stream(first);
        second = new_stream();
        n_reused += second == first;
        if (!r)
                r = CUDA_CALL(&cuda, cuStreamWaitEvent, second, filled, 0);
        if (!r)
                r = CUDA_CALL(&cuda, cuMemcpyDtoHAsync, read, (CUdeviceptr)(uintptr_t)pointer,
                              N_BYTES, second);
        if (!r)
                r = gpumem_free(client, pointer, second);
        if (!r)
                r = CUDA_CALL(&cuda, cuStreamSynchronize, second);
        end_stream(second);
        (void)CUDA_CALL(&cuda, cuEventDestroy, filled);
        n_wrong += r || read[0] != byte || memcmp(read, read + 1, N_BYTES - 1) != 0;
}

static void *work(void *argument)
{
        unsigned number = (unsigned)(uintptr_t)argument;

        if (CUDA_CALL(&cuda, cuCtxSetCurrent, contexts[number % 2]))
                n_wrong++;
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                fill_and_read((unsigned char)(16 * number + i % 16 + 1),
                              staging + number * N_BYTES);
                if (i % 8 == number && gpumem_flush(client, NULL))
                        n_wrong++;
        }
        return NULL;
}

TEST(by_streams_of_many_threads, .to = ARRAY_SIZE(caches))
{
        pthread_t threads[N_THREADS];

        start(caches[_i]);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(n_wrong, 0);
        if (machine_is_emulated())
                ck_assert_uint_gt(n_reused, 0);
}

static void alloc_and_free_pinned(void)
{
        struct gpumem_request request = request_in(NULL, GPUMEM_PINNED, N_BYTES);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
}

/* A driver may crash when one that was destroyed is made current: it is not, and what was the library's there has
 * ended with it. The thread's own context may be such a one. */
TEST(a_context_that_was_destroyed_is_not_entered, .to = 2)
{
        __typeof__(cuCtxDestroy) *destroy = (__typeof__(destroy))find_call(NAME_OF(cuCtxDestroy));
        CUstream stream;

        start("0");
        use(1);
        stream = new_stream();
        ck_assert_int_eq(gpumem_free(client, alloc_in(stream), stream), 0);
        alloc_and_free_pinned();
        if (_i)
                use(0);
        ck_assert_int_eq(destroy(contexts[1]), CUDA_SUCCESS);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        alloc_and_free_pinned();
        use(0);
        alloc_and_free_pinned();
}

TESTS_MAIN("handles", .limit_s = 60, .stop = stop)
