/* SPDX-License-Identifier: Apache-2.0 */
/* What a client does while a stream captures leaves the capture as it is. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/capturer.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

#define N_BYTES   (64 * KIB)
#define N_THREADS 3
#define N_ROUNDS  20

/* Of 256 MiB: what this process keeps must be taken from it. */
#define MOST (200 * MIB)

/* Until the service thread has seen that work is over, and the daemon has been told. */
#define LONG_MS 20000

static struct daemon gpumemd;
static struct holder holder;
static struct gpu *gpu;
static struct cuda cuda;
static struct capturer capturer;
static struct gpumem_client *client;
static CUstream captured, side;
static void *kept;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};
        char reason[CUDA_REASON_MAX];

        daemon_start(&gpumemd, "devices=1,bytes=288MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&holder);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &captured, CU_STREAM_NON_BLOCKING), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &side, CU_STREAM_NON_BLOCKING), 0);
        capturer_init(&capturer, &cuda);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void stop(void)
{
        holder_end(&holder);
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static int alloc(enum gpumem_kind kind, void *stream, uint64_t n_bytes, uint32_t flags,
                 uint32_t wait_ms, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = kind,
                                         .place = GPUMEM_NEAREST,
                                         .stream = stream,
                                         .flags = flags,
                                         .n_bytes = n_bytes,
                                         .wait_ms = wait_ms};

        return gpumem_alloc(client, &request, ret_pointer);
}

static void *must_alloc(enum gpumem_kind kind, void *stream, uint64_t n_bytes, uint32_t flags)
{
        void *pointer;

        ck_assert_int_eq(alloc(kind, stream, n_bytes, flags, LONG_MS, &pointer), 0);
        return pointer;
}

static CUdeviceptr address_of(const void *pointer)
{
        return (CUdeviceptr)(uintptr_t)pointer;
}

static void fill(const void *pointer, unsigned char byte, uint64_t n_bytes, CUstream stream)
{
        ck_assert_int_eq(
                CUDA_CALL(&cuda, cuMemsetD8Async, address_of(pointer), byte, n_bytes, stream), 0);
}

/* The bytes are there after a replay, whatever was there before. */
static void check_replay(CUgraph graph, unsigned char byte)
{
        unsigned char *bytes = malloc(N_BYTES);

        ck_assert_ptr_nonnull(bytes);
        fill(kept, (unsigned char)~byte, N_BYTES, captured);
        capturer_replay(&capturer, graph, captured);
        ck_assert_int_eq(
                CUDA_CALL(&cuda, cuMemcpyDtoHAsync, bytes, address_of(kept), N_BYTES, captured), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, captured), 0);
        for (uint64_t i = 0; i < N_BYTES; i++)
                ck_assert_uint_eq(bytes[i], byte);
        free(bytes);
}

/* Every way in which memory comes and goes. */
static void use_everything(CUstream stream)
{
        void *plain = must_alloc(GPUMEM_DEVICE, stream, 6 * MIB, 0);
        void *others = must_alloc(GPUMEM_DEVICE, stream, N_BYTES, 0);
        void *used = must_alloc(GPUMEM_DEVICE, stream, 2 * MIB, 0);
        void *pinned = must_alloc(GPUMEM_PINNED, stream, 2 * MIB, 0);
        void *shared = must_alloc(GPUMEM_DEVICE, stream, 2 * MIB, GPUMEM_SHAREABLE);

        fill(plain, 0x11, 6 * MIB, stream);
        ck_assert_int_eq(gpumem_record_use(client, used, side), 0);
        ck_assert_int_eq(gpumem_free(client, plain, stream), 0);
        ck_assert_int_eq(gpumem_free(client, others, side), 0);
        ck_assert_int_eq(gpumem_free(client, used, stream), 0);
        ck_assert_int_eq(gpumem_free(client, pinned, stream), 0);
        ck_assert_int_eq(gpumem_free(client, shared, stream), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        plain = must_alloc(GPUMEM_DEVICE, stream, 3 * MIB, 0);
        ck_assert_int_eq(gpumem_free_sync(client, plain), 0);
}

static void *churn(void *argument)
{
        CUstream stream;

        (void)argument;
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING), 0);
        for (unsigned i = 0; i < N_ROUNDS; i++)
                use_everything(stream);
        return NULL;
}

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};

TEST(other_threads_do_not_end_it, .to = ARRAY_SIZE(modes))
{
        pthread_t threads[N_THREADS];
        CUgraph graph;

        kept = must_alloc(GPUMEM_DEVICE, captured, N_BYTES, 0);
        capturer_begin(&capturer, captured, modes[_i]);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, NULL), 0);
        fill(kept, 0x5a, N_BYTES, captured);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        fill(kept, 0xa5, N_BYTES / 2, captured);
        fill((char *)kept + N_BYTES / 2, 0xa5, N_BYTES / 2, captured);
        graph = capturer_end(&capturer, captured);
        check_replay(graph, 0xa5);
        capturer_destroy(&capturer, graph);
}

/* The driver is strictest with the capturing thread itself. */
TEST(its_own_thread_does_not_either, .to = ARRAY_SIZE(modes))
{
        CUgraph graph;

        kept = must_alloc(GPUMEM_DEVICE, captured, N_BYTES, 0);
        capturer_begin(&capturer, captured, modes[_i]);
        fill(kept, 0x5a, N_BYTES, captured);
        use_everything(gpu_stream(gpu));
        graph = capturer_end(&capturer, captured);
        check_replay(graph, 0x5a);
        capturer_destroy(&capturer, graph);
}

/* What the service thread marks idle another process takes, and this one unmaps. */
TEST(what_is_taken_away_does_not_end_it, .to = ARRAY_SIZE(modes))
{
        CUgraph graph;
        void *pointer;

        kept = must_alloc(GPUMEM_DEVICE, captured, N_BYTES, 0);
        capturer_begin(&capturer, captured, modes[_i]);
        for (unsigned i = 0; i < 5; i++) {
                pointer = must_alloc(GPUMEM_DEVICE, gpu_stream(gpu), MOST, 0);
                fill(pointer, 0x11, MOST, gpu_stream(gpu));
                ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
                ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
                ck_assert_int_eq(alloc(GPUMEM_DEVICE, side, MOST, 0, 0, &pointer),
                                 GPUMEM_E_REFUSED);
                holder_check(&holder);
                holder_free_all(&holder);
        }
        fill(kept, 0x77, N_BYTES, captured);
        graph = capturer_end(&capturer, captured);
        check_replay(graph, 0x77);
        capturer_destroy(&capturer, graph);
}

/* The mode that the program has chosen for a thread is its own. */
TEST(a_threads_mode_is_left_as_it_was)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuThreadExchangeStreamCaptureMode, &mode), 0);
        use_everything(gpu_stream(gpu));
        mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        ck_assert_int_eq(CUDA_CALL(&cuda, cuThreadExchangeStreamCaptureMode, &mode), 0);
        ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

TESTS_MAIN("capture", .limit_s = 120, .start = start, .stop = stop)
