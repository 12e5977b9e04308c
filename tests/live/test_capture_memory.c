/* Memory that is allocated while a stream captures belongs to the graph, and to whoever has not freed it. */
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/capturer.h"
#include "tests/live/daemon.h"
#include "tests/live/gate.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

#define N_BYTES (4 * MIB)

/* Of 256 MiB: whoever has one of them leaves no room for another. */
#define MOST (200 * MIB)

/* Nobody tells when a block has become idle. */
#define LONG_MS 20000

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL

static struct daemon gpumemd;
static struct holder holder;
static struct gpu *gpu;
static struct cuda cuda;
static struct capturer capturer;
static struct gate gate;
static struct gpumem_client *client;
static CUstream captured, branch, side;

static CUstream stream_new(void)
{
        CUstream stream;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING), 0);
        return stream;
}

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
        captured = stream_new();
        branch = stream_new();
        side = stream_new();
        capturer_init(&capturer, &cuda);
        gate_init(&gate, &cuda);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void stop(void)
{
        gate_deinit(&gate);
        holder_end(&holder);
        if (client)
                gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static int alloc(void *stream, uint64_t n_bytes, uint32_t wait_ms, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = stream,
                                         .n_bytes = n_bytes,
                                         .wait_ms = wait_ms};

        return gpumem_alloc(client, &request, ret_pointer);
}

static void *must_alloc(void *stream, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(alloc(stream, n_bytes, LONG_MS, &pointer), 0);
        return pointer;
}

static void must_free(void *pointer, void *stream)
{
        ck_assert_int_eq(gpumem_free(client, pointer, stream), 0);
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

static void copy(const void *to, const void *from, uint64_t n_bytes, CUstream stream)
{
        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyDtoDAsync, address_of(to), address_of(from),
                                   n_bytes, stream),
                         0);
}

static void check(const void *pointer, unsigned char byte, uint64_t n_bytes)
{
        unsigned char *bytes = malloc(n_bytes);

        ck_assert_ptr_nonnull(bytes);
        ck_assert_int_eq(
                CUDA_CALL(&cuda, cuMemcpyDtoHAsync, bytes, address_of(pointer), n_bytes, side), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(bytes[i], byte);
        free(bytes);
}

static struct gpumem_stats stats(void)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        return stats;
}

/* Another process can have what this one does not keep. */
static void everything_is_free(void)
{
        ck_assert_uint_eq(stats().n_allocated_bytes, 0);
        ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
        holder_free_all(&holder);
}

/* The second stream becomes part of what the first one captures, and the other way round. */
static void order(CUstream later, CUstream earlier)
{
        CUevent event;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventRecord, event, earlier), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamWaitEvent, later, event, 0), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventDestroy, event), 0);
}

START_TEST(what_is_freed_in_a_capture_is_had_again_there)
{
        void *first, *second, *result = must_alloc(side, N_BYTES);
        uint64_t n_hits;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        first = must_alloc(captured, N_BYTES);
        fill(first, 0x11, N_BYTES, captured);
        copy(result, first, N_BYTES / 2, captured);
        must_free(first, captured);
        n_hits = stats().n_hits;
        second = must_alloc(captured, N_BYTES);
        ck_assert_uint_eq(stats().n_hits, n_hits + 1);
        ck_assert_ptr_eq(first, second);
        fill(second, 0x22, N_BYTES, captured);
        copy((char *)result + N_BYTES / 2, second, N_BYTES / 2, captured);
        must_free(second, captured);
        graph = capturer_end(&capturer, captured);
        for (unsigned i = 0; i < 3; i++) {
                fill(result, 0, N_BYTES, side);
                ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
                capturer_replay(&capturer, graph, captured);
                check(result, 0x11, N_BYTES / 2);
                check((char *)result + N_BYTES / 2, 0x22, N_BYTES / 2);
        }
        capturer_destroy(&capturer, graph);
        must_free(result, side);
        everything_is_free();
}
END_TEST

/* Neither another stream, nor the same one when it does not capture, nor its next capture. */
START_TEST(it_is_nobody_elses)
{
        void *freed, *others[4];
        CUgraph graphs[2];

        capturer_begin(&capturer, captured, GLOBAL);
        freed = must_alloc(captured, N_BYTES);
        must_free(freed, captured);
        others[0] = must_alloc(side, N_BYTES);
        order(branch, captured);
        others[1] = must_alloc(branch, N_BYTES);
        order(captured, branch);
        graphs[0] = capturer_end(&capturer, captured);
        others[2] = must_alloc(captured, N_BYTES);
        capturer_begin(&capturer, captured, GLOBAL);
        others[3] = must_alloc(captured, N_BYTES);
        graphs[1] = capturer_end(&capturer, captured);
        for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
                ck_assert_ptr_ne(others[i], freed);
                must_free(others[i], side);
        }
        capturer_destroy(&capturer, graphs[1]);
        capturer_destroy(&capturer, graphs[0]);
        everything_is_free();
}
END_TEST

START_TEST(it_stays_as_long_as_the_graph)
{
        void *pointer;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = must_alloc(captured, MOST);
        fill(pointer, 0x33, 1024, captured);
        if (_i)
                must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        if (!_i)
                must_free(pointer, side);
        ck_assert_uint_eq(stats().n_allocated_bytes, 0);
        sleep_ms(50);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        capturer_replay(&capturer, graph, captured);
        capturer_destroy(&capturer, graph);
        everything_is_free();
        /* This process too can have it, with no thread's help. */
        pointer = must_alloc(side, MOST);
        must_free(pointer, side);
}
END_TEST

/* The graph may be destroyed while it runs. */
START_TEST(it_stays_as_long_as_the_graphs_work)
{
        void *pointer;
        CUgraphExec executable;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = must_alloc(captured, MOST);
        fill(pointer, 0x33, 1024, captured);
        must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        ck_assert_int_eq(capturer.instantiate(&executable, graph, 0), CUDA_SUCCESS);
        capturer_destroy(&capturer, graph);
        gate_hold(&gate, captured);
        ck_assert_int_eq(capturer.launch(executable, captured), CUDA_SUCCESS);
        ck_assert_int_eq(capturer.destroy_executable(executable), CUDA_SUCCESS);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        gate_open(&gate);
        everything_is_free();
}
END_TEST

START_TEST(an_allocation_may_outlive_the_graph)
{
        void *kept, *freed;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        kept = must_alloc(captured, N_BYTES);
        freed = must_alloc(captured, N_BYTES);
        fill(kept, 0x44, N_BYTES, captured);
        must_free(freed, captured);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        capturer_destroy(&capturer, graph);
        ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
        holder_free_all(&holder);
        check(kept, 0x44, N_BYTES);
        ck_assert_uint_eq(stats().n_allocated_bytes, N_BYTES);
        must_free(kept, side);
        everything_is_free();
}
END_TEST

/* Or it was lost, or its stream was destroyed before its end. */
START_TEST(a_capture_that_comes_to_nothing_keeps_nothing)
{
        CUgraph graph;
        void *pointer;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = must_alloc(captured, MOST);
        if (_i == 0)
                must_free(pointer, captured);
        if (_i == 2) {
                ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamDestroy, captured), 0);
        } else {
                ck_assert_int_ne((int)cuda.cuStreamQuery(captured), CUDA_SUCCESS);
                ck_assert_int_eq(alloc(captured, 512, 0, &pointer), GPUMEM_E_UNSUPPORTED);
                ck_assert_int_ne((int)capturer.end(captured, &graph), CUDA_SUCCESS);
        }
        if (_i)
                must_free(pointer, side);
        everything_is_free();
}
END_TEST

/* What they run at their end finds nobody. */
START_TEST(a_graph_may_outlive_the_client)
{
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        (void)must_alloc(captured, N_BYTES);
        graph = capturer_end(&capturer, captured);
        gpumem_disconnect(client);
        client = NULL;
        capturer_destroy(&capturer, graph);
}
END_TEST

/* Those who miss look, when there is no thread that does. */
START_TEST(it_goes_without_a_thread)
{
        void *pointer;
        CUgraph graph;

        gpumem_disconnect(client);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        for (unsigned i = 0; i < 3; i++) {
                capturer_begin(&capturer, captured, GLOBAL);
                pointer = must_alloc(captured, MOST);
                must_free(pointer, captured);
                graph = capturer_end(&capturer, captured);
                ck_assert_int_eq(alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
                capturer_destroy(&capturer, graph);
                pointer = must_alloc(side, MOST);
                must_free(pointer, side);
                ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        }
        everything_is_free();
}
END_TEST

START_TEST(what_has_no_place_in_a_graph_is_told)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .stream = captured,
                                         .n_bytes = N_BYTES};
        void *pointer;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_UNSUPPORTED);
        request.kind = GPUMEM_DEVICE;
        request.place = 0;
        request.flags = GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_UNSUPPORTED);
        graph = capturer_end(&capturer, captured);
        capturer_destroy(&capturer, graph);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("capture memory");
        TCase *tests = tcase_create("memory");

        tcase_set_timeout(tests, 120);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, what_is_freed_in_a_capture_is_had_again_there);
        tcase_add_test(tests, it_is_nobody_elses);
        tcase_add_loop_test(tests, it_stays_as_long_as_the_graph, 0, 2);
        tcase_add_test(tests, it_stays_as_long_as_the_graphs_work);
        tcase_add_test(tests, an_allocation_may_outlive_the_graph);
        tcase_add_loop_test(tests, a_capture_that_comes_to_nothing_keeps_nothing, 0, 3);
        tcase_add_test(tests, a_graph_may_outlive_the_client);
        tcase_add_test(tests, it_goes_without_a_thread);
        tcase_add_test(tests, what_has_no_place_in_a_graph_is_told);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
