/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one device that another one works on: whose work is waited for, and who allocates meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/err.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/gate.h"
#include "tests/live/peers_world.h"
#include "tests/suite.h"

static struct daemon gpumemd;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};

        daemon_start(&gpumemd, "devices=2,bytes=288MiB", options);
        peers_open(machine_n_devices());
}

static void stop(void)
{
        peers_close(machine_n_devices());
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

/* The other device writes to it late; by then it must not be another's. */
TEST(it_is_nobody_elses_before_the_other_device_is_done, NEEDS_TWO_DEVICES)
{
        void *used = must_alloc(0, N_BYTES, 0), *next[8];
        struct gate gate;

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_init(&gate, &cuda);
        gate_hold(&gate, gpu_stream(gpus[1]));
        ck_assert_int_eq(gpu_fill(gpus[1], used, 0xbb, N_BYTES), 0);
        ck_assert_int_eq(gpumem_record_use(client, used, gpu_stream(gpus[1])), 0);
        must_free(0, used);
        for (unsigned i = 0; i < ARRAY_SIZE(next); i++) {
                next[i] = must_alloc(0, N_BYTES, 0);
                ck_assert_ptr_ne(next[i], used);
                write_by(0, next[i], 0xaa);
        }
        gate_open(&gate);
        ck_assert_int_eq(gpu_synchronize(gpus[1]), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(next); i++) {
                read_by(0, next[i], 0xaa);
                must_free(0, next[i]);
        }
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_deinit(&gate);
}

static void *open_later(void *argument)
{
        sleep_ms(50);
        gate_open(argument);
        return NULL;
}

TEST(a_free_in_the_other_devices_stream_waits_for_it, NEEDS_TWO_DEVICES)
{
        void *used = must_alloc(0, N_BYTES, 0);
        pthread_t thread;
        struct gate gate;

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_init(&gate, &cuda);
        gate_hold(&gate, gpu_stream(gpus[1]));
        ck_assert_int_eq(gpu_fill(gpus[1], used, 0xbb, N_BYTES), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, open_later, &gate), 0);
        must_free(1, used);
        ck_assert_int_eq(cuda.cuStreamQuery(gpu_stream(gpus[1])), CUDA_SUCCESS);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_ptr_eq(must_alloc(0, N_BYTES, 0), used);
        must_free(0, used);
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_deinit(&gate);
}

#define N_THREADS 4
#define N_HELD    6

struct worker {
        pthread_t thread;
        void *held[N_HELD];
        atomic_bool *over;
};

static CUcontext context_of_first(void)
{
        CUcontext context;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuCtxGetCurrent, &context), 0);
        return context;
}

/* Blocks come and go all the time; at the end some stay. */
static void *allocate(void *argument)
{
        struct worker *worker = argument;
        struct gpumem_request request = {
                .struct_size = sizeof(request), .kind = GPUMEM_DEVICE, .flags = GPUMEM_SHAREABLE};
        bool over;

        do {
                over = atomic_load(worker->over);
                for (unsigned i = 0; i < N_HELD; i++) {
                        if (worker->held[i] && gpumem_free_sync(client, worker->held[i]))
                                return worker;
                        request.n_bytes = (2 + i % 3) * N_BYTES / 2;
                        if (gpumem_alloc(client, &request, &worker->held[i]))
                                return worker;
                }
        } while (!over);
        return NULL;
}

struct thread_start {
        CUcontext context;
        struct worker *worker;
};

static void *begin(void *argument)
{
        struct thread_start *start = argument;

        return cuda.cuCtxSetCurrent(start->context) ? argument : allocate(start->worker);
}

TEST(no_block_is_missed_while_others_allocate, NEEDS_TWO_DEVICES)
{
        struct worker workers[N_THREADS];
        struct thread_start starts[N_THREADS];
        CUcontext context = context_of_first();
        atomic_bool over = false;

        for (unsigned i = 0; i < N_THREADS; i++) {
                workers[i] = (struct worker){.over = &over};
                starts[i] = (struct thread_start){context, &workers[i]};
                ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, begin, &starts[i]), 0);
        }
        sleep_ms(30);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        atomic_store(&over, true);
        for (unsigned i = 0; i < N_THREADS; i++) {
                void *failed;

                ck_assert_int_eq(pthread_join(workers[i].thread, &failed), 0);
                ck_assert_ptr_null(failed);
                for (unsigned j = 0; j < N_HELD; j++) {
                        ck_assert(is_reached(workers[i].held[j], 1));
                        ck_assert_int_eq(gpumem_free_sync(client, workers[i].held[j]), 0);
                }
        }
}

TEST(a_device_reaches_its_own)
{
        void *memory = must_alloc(0, N_BYTES, 0);

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 0), 0);
        write_by(0, memory, 5);
        read_by(0, memory, 5);
        must_free(0, memory);
}

TESTS_MAIN("order", .limit_s = 60, .start = start, .stop = stop)
