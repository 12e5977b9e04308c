/* SPDX-License-Identifier: Apache-2.0 */
/* Frees without a stream: in the order of the memory's own stream, or after all registered ones. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/api/client.h"
#include "client/runtime/before_wait.h"
#include "driver/cuda.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/worlds/solo.h"
#include "tests/suite.h"

#define N_BYTES (4 * MIB)

static struct cuda cuda;
static struct gate gate;
static CUstream side;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};
        char reason[CUDA_REASON_MAX];

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &side, CU_STREAM_NON_BLOCKING), 0);
        gate_init(&gate, &cuda);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void stop(void)
{
        gate_deinit(&gate);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static int alloc_bytes(uint64_t n_bytes, void *stream, void **ret_pointer)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .stream = stream,
                                               .n_bytes = n_bytes};

        return gpumem_alloc(client, &request, ret_pointer);
}

static void *alloc_in(void *stream)
{
        void *pointer;

        ck_assert_int_eq(alloc_bytes(N_BYTES, stream, &pointer), 0);
        return pointer;
}

typedef int free_call(struct gpumem_client *client, void *pointer);

struct elsewhere {
        free_call *call;
        void *pointer;
        int r;
};

static void *free_elsewhere(void *argument)
{
        struct elsewhere *elsewhere = argument;

        elsewhere->r = elsewhere->call(client, elsewhere->pointer);
        return NULL;
}

/* By a thread without a context. */
static int free_in_thread(free_call *call, void *pointer)
{
        struct elsewhere elsewhere = {.call = call, .pointer = pointer};
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, free_elsewhere, &elsewhere), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        return elsewhere.r;
}

/* While the stream's work is held up its memory comes again there, and nowhere else. */
static void check_own_stream_alone(void *stream)
{
        void *pointer = alloc_in(stream), *again, *other;

        gate_hold(&gate, stream);
        ck_assert_int_eq(free_in_thread(gpumem_free_in_order, pointer), 0);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), GPUMEM_E_NOT_OURS);
        again = alloc_in(stream);
        ck_assert_ptr_eq(again, pointer);
        ck_assert_int_eq(gpumem_free_in_order(client, again), 0);
        other = alloc_in(side);
        ck_assert_ptr_ne(other, pointer);
        gate_open(&gate);
        ck_assert_int_eq(gpumem_free_in_order(client, other), 0);
}

TEST(in_order_its_own_stream_has_it_again_at_once)
{
        check_own_stream_alone(gpu_stream(gpu));
}

TEST(so_it_is_with_a_registered_stream)
{
        ck_assert_int_eq(gpumem_stream_register(client, gpu_stream(gpu)), 0);
        check_own_stream_alone(gpu_stream(gpu));
        ck_assert_int_eq(gpumem_stream_unregister(client, gpu_stream(gpu)), 0);
}

TEST(so_it_is_with_a_registered_default_stream)
{
        ck_assert_int_eq(gpumem_stream_register(client, NULL), 0);
        check_own_stream_alone(NULL);
        ck_assert_int_eq(gpumem_stream_unregister(client, NULL), 0);
}

/* Its memory is there again for others once the whole context was waited for: nothing asks the dead stream. */
TEST(the_stream_may_be_gone)
{
        CUstream gone;
        void *pointer, *all;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &gone, CU_STREAM_NON_BLOCKING), 0);
        pointer = alloc_in(gone);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamDestroy, gone), 0);
        ck_assert_int_eq(free_in_thread(gpumem_free_in_order, pointer), 0);
        ck_assert_int_eq(alloc_bytes(250 * MIB, gpu_stream(gpu), &all), 0);
        ck_assert_int_eq(gpumem_free(client, all, gpu_stream(gpu)), 0);
}

/* The idle block leaves by itself when the stream is at hand again, or was all the time. */
TEST(of_a_registered_stream_it_becomes_idle_by_itself)
{
        void *pointer;

        ck_assert_int_eq(gpumem_stream_register(client, gpu_stream(gpu)), 0);
        ck_assert_int_eq(alloc_bytes(128 * MIB, gpu_stream(gpu), &pointer), 0);
        ck_assert_int_eq(free_in_thread(gpumem_free_in_order, pointer), 0);
        daemon_await_first(FIGURE_idle, 128 * MIB, 256 * MIB);
        ck_assert_int_eq(gpumem_stream_unregister(client, gpu_stream(gpu)), 0);
}

TEST(what_others_use_waits_for_them)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        void *pointer;

        ck_assert_int_eq(gpumem_stream_register(client, gpu_stream(gpu)), 0);
        pointer = alloc_in(gpu_stream(gpu));
        gate_hold(&gate, side);
        ck_assert_int_eq(gpumem_record_use(client, pointer, side), 0);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        ck_assert_ptr_ne(alloc_in(gpu_stream(gpu)), pointer);
        gate_open(&gate);
        ck_assert_int_eq(gpumem_stream_unregister(client, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        ck_assert_uint_eq(stats.n_allocated_bytes, N_BYTES);
}

#define N_PIECES 128

static CUstream captured;
static _Atomic unsigned n_captures;
static _Atomic bool captures_end;

static void *capture_again_and_again(void *capturer)
{
        ck_assert_int_eq(gpu_use(gpu), 0);
        while (!atomic_load(&captures_end)) {
                ck_assert_int_eq(gpumem_before_capture(client), 0);
                capturer_begin(capturer, captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                capturer_destroy(capturer, capturer_end(capturer, captured));
                ck_assert_int_eq(gpumem_after_capture(client), 0);
                atomic_fetch_add(&n_captures, 1);
        }
        return NULL;
}

/* The caller of the free does not know the stream. CUDA would end the process if it were asked for the stream's id
 * while a capture begins or ends; see test_emulator_misuse.c. */
TEST(it_may_be_captured_at_the_free, .to = 4)
{
        struct gpumem_stream *handle;
        struct capturer capturer;
        void *pieces[N_PIECES];
        pthread_t thread;

        capturer_init(&capturer, &cuda);
        captured = gpu_stream(gpu);
        n_captures = 0;
        captures_end = false;
        if (_i / 2)
                ck_assert_int_eq(gpumem_stream_open(client, captured, &handle), 0);
        else
                ck_assert_int_eq(gpumem_stream_register(client, captured), 0);
        for (unsigned i = 0; i < N_PIECES; i++) {
                ck_assert_int_eq(alloc_bytes(MIB, captured, &pieces[i]), 0);
                if (_i % 2)
                        ck_assert_int_eq(gpumem_record_use(client, pieces[i], side), 0);
        }
        ck_assert_int_eq(pthread_create(&thread, NULL, capture_again_and_again, &capturer), 0);
        while (!atomic_load(&n_captures))
                sleep_ms(1);
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpumem_free_in_order(client, pieces[i]), 0);
        atomic_store(&captures_end, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        if (_i / 2)
                ck_assert_int_eq(gpumem_stream_close(handle), 0);
        else
                ck_assert_int_eq(gpumem_stream_unregister(client, captured), 0);
}

/* Its stream is neither asked nor marked before the capture has ended. */
TEST(while_a_capture_is_announced_it_stays, .to = 2)
{
        void *pointer;

        ck_assert_int_eq(gpumem_stream_register(client, gpu_stream(gpu)), 0);
        ck_assert_int_eq(alloc_bytes(128 * MIB, gpu_stream(gpu), &pointer), 0);
        if (_i)
                ck_assert_int_eq(gpumem_record_use(client, pointer, side), 0);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        ck_assert_int_eq(free_in_thread(gpumem_free_in_order, pointer), 0);
        sleep_ms(20);
        ck_assert(_i || daemon_figure(FIGURE_idle) == 0);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        daemon_await_first(FIGURE_idle, 128 * MIB, 256 * MIB);
        ck_assert_int_eq(gpumem_stream_unregister(client, gpu_stream(gpu)), 0);
}

/* Work of a blocking stream, which is not registered, counts by way of the default stream. */
TEST(later_is_after_all_that_the_default_stream_stands_for)
{
        CUstream blocking;
        void *pointer, *next;

        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamCreate, &blocking, 0), 0);
        ck_assert_int_eq(gpumem_stream_register(client, NULL), 0);
        pointer = alloc_in(NULL);
        gate_hold(&gate, blocking);
        ck_assert_int_eq(free_in_thread(gpumem_free_later, pointer), 0);
        ck_assert_int_eq(gpumem_free_later(client, pointer), GPUMEM_E_NOT_OURS);
        next = alloc_in(NULL);
        ck_assert_ptr_ne(next, pointer);
        gate_open(&gate);
        ck_assert_int_eq(gpumem_free_later(client, next), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_await_first(FIGURE_charged, 0, 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, NULL), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamDestroy, blocking), 0);
}

static void *open_later(void *argument)
{
        sleep_ms(50);
        gate_open(argument);
        return NULL;
}

/* No round covers its stream: the call waits. */
TEST(later_without_registered_streams_waits)
{
        void *pointer = alloc_in(gpu_stream(gpu));
        pthread_t thread;

        gate_hold(&gate, gpu_stream(gpu));
        ck_assert_int_eq(pthread_create(&thread, NULL, open_later, &gate), 0);
        ck_assert_int_eq(gpumem_free_later(client, pointer), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamQuery, gpu_stream(gpu)), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(a_stream_waits_for_another)
{
        void *pointer = alloc_in(side);
        int r;

        gate_hold(&gate, gpu_stream(gpu));
        ck_assert_int_eq(gpumem_stream_wait(client, side, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_stream_wait(client, side, side), 0);
        r = CUDA_CALL(&cuda, cuStreamQuery, side);
        ck_assert_int_ne(r, 0);
        gate_open(&gate);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
        ck_assert_int_eq(gpumem_free(client, pointer, side), 0);
}

TEST(a_capture_does_not_wait_for_work_outside_of_it)
{
        struct capturer capturer;

        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, side, CU_STREAM_CAPTURE_MODE_RELAXED);
        ck_assert_int_eq(gpumem_stream_wait(client, side, gpu_stream(gpu)), GPUMEM_E_CAPTURES);
        capturer_destroy(&capturer, capturer_end(&capturer, side));
}

/* A thread's own default stream captures like any other. */
TEST(a_capture_of_the_per_thread_stream_does_not_either)
{
        struct capturer capturer;
        void *per_thread = CU_STREAM_PER_THREAD;

        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, per_thread, CU_STREAM_CAPTURE_MODE_RELAXED);
        ck_assert_int_eq(gpumem_stream_wait(client, per_thread, side), GPUMEM_E_CAPTURES);
        /* `side` joins, and the other way round it is of the same capture. */
        ck_assert_int_eq(gpumem_stream_wait(client, side, per_thread), 0);
        ck_assert_int_eq(gpumem_stream_wait(client, per_thread, side), 0);
        capturer_destroy(&capturer, capturer_end(&capturer, per_thread));
}

/* The default stream waits for blocking streams, which cannot be while one of them captures. */
TEST(no_wait_for_the_default_stream_ends_a_capture, .to = 2)
{
        struct capturer capturer;
        CUstream blocking;

        DRIVER(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        ck_assert_int_ne(_i ? gpumem_stream_wait(client, NULL, side)
                            : gpumem_stream_wait(client, side, NULL),
                         0);
        capturer_destroy(&capturer, capturer_end(&capturer, blocking));
        DRIVER(cuStreamDestroy, blocking);
}

static pthread_t announcer;
static atomic_bool is_announced;

/* The work goes on only after that. */
static void *announce(void *unused)
{
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        atomic_store(&is_announced, true);
        gate_open(&gate);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        return unused;
}

/* In the midst of a free: returns when the other thread waits, or need not. */
static void begin_announcing(struct before_wait *unused)
{
        (void)unused;
        ck_assert_int_eq(pthread_create(&announcer, NULL, announce, NULL), 0);
        while (!atomic_load(&is_announced) && capture_gate_enter(&client->streams.gate)) {
                capture_gate_leave(&client->streams.gate);
                sleep_ms(1);
        }
}

TEST(who_announces_a_capture_waits_for_no_work_of_the_default_stream)
{
        struct before_wait before = {begin_announcing};
        struct gpumem_stream *handle;
        void *pointer;

        ck_assert_int_eq(gpumem_stream_open(client, NULL, &handle), 0);
        pointer = alloc_in(NULL);
        ck_assert_int_eq(gpumem_record_use(client, pointer, side), 0);
        gate_hold(&gate, side);
        before_wait_set(&before);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        before_wait_set(NULL);
        ck_assert_int_eq(pthread_join(announcer, NULL), 0);
        ck_assert_int_eq(gpumem_stream_close(handle), 0);
}

/* Memory of a graph: freed there it comes again there, and freed after the capture nothing is lost. */
TEST(memory_of_a_capture_is_freed_in_order)
{
        struct capturer capturer;
        void *pointer, *again;
        CUgraph graph;

        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, side, CU_STREAM_CAPTURE_MODE_RELAXED);
        pointer = alloc_in(side);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        again = alloc_in(side);
        ck_assert_ptr_eq(again, pointer);
        graph = capturer_end(&capturer, side);
        capturer_replay(&capturer, graph, side);
        ck_assert_int_eq(free_in_thread(gpumem_free_in_order, again), 0);
        capturer_destroy(&capturer, graph);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_await_first(FIGURE_charged, 0, 0);
}

TESTS_MAIN("free_orders", .limit_s = 30, .start = start, .stop = stop)
