/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several streams use is not reused before all of them have reached its free. */
#include <pthread.h>

#include "driver/cuda.h"
#include "tests/live/support/gate.h"
#include "tests/live/worlds/solo.h"

#define N_BYTES (2 * MIB)

static struct cuda cuda;
static struct gate gate;
static struct gate endless; /* of work that does not end before the test */
static CUstream side, aside;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        solo_open(getuid());
        load_driver(&cuda);
        DRIVER(cuStreamCreate, &side, CU_STREAM_NON_BLOCKING);
        DRIVER(cuStreamCreate, &aside, CU_STREAM_NON_BLOCKING);
        gate_init(&gate, &cuda);
        gate_init(&endless, &cuda);
}

static void stop(void)
{
        gate_open(&gate);
        gate_open(&endless);
        gate_deinit(&gate);
        gate_deinit(&endless);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        solo_close();
        gpumemd_stop_uncharged();
}

static void *alloc(void)
{
        return must_alloc(GPUMEM_DEVICE, N_BYTES);
}

static void *alloc_shareable(void)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, N_BYTES);
        void *pointer;

        request.flags |= GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

static void use_aside(void *pointer)
{
        ck_assert_int_eq(gpumem_record_use(client, pointer, side), 0);
}

static void await_allocated(uint64_t n_bytes)
{
        for (unsigned i = 0; i < 2000 && device_stats().n_allocated_bytes != n_bytes; i++)
                sleep_ms(10);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, n_bytes);
}

/* The side stream writes to it late; by then it must not be another's. */
TEST(it_is_nobody_elses_before_the_others_have_come_as_far)
{
        void *used = alloc(), *again, *staged;

        gate_hold(&gate, side);
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)used, 0xbb, N_BYTES, side);
        use_aside(used);
        must_free(used);
        for (unsigned i = 0; i < 8; i++) {
                void *next = alloc();

                ck_assert_ptr_ne(next, used);
                ck_assert_int_eq(gpu_fill(gpu, next, 0xaa, N_BYTES), 0);
        }
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 9 * N_BYTES);
        gate_open(&gate);
        await_allocated(8 * N_BYTES);
        again = alloc();
        ck_assert_int_eq(gpu_fill(gpu, again, 0xcc, N_BYTES), 0);
        ck_assert_int_eq(gpu_stage(gpu, 4096, &staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, staged, again, 4096), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_uint_eq(((unsigned char *)staged)[4095], 0xcc);
}

TEST(what_is_freed_and_waits_is_not_ours)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        void *used = alloc();

        gate_hold(&gate, side);
        use_aside(used);
        use_aside(used);
        must_free(used);
        ck_assert_int_eq(gpumem_free(client, used, gpu_stream(gpu)), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, used), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_record_use(client, used, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, used, &info), GPUMEM_E_NOT_OURS);
        gate_open(&gate);
        await_allocated(0);
}

TEST(its_own_stream_is_no_other)
{
        void *used = alloc();

        gate_hold(&gate, gpu_stream(gpu));
        ck_assert_int_eq(gpumem_record_use(client, used, gpu_stream(gpu)), 0);
        must_free(used);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 0);
}

static void *open_later(void *argument)
{
        sleep_ms(50);
        gate_open(argument);
        return NULL;
}

/* Whatever ends the memory otherwise waits for them. */
TEST(other_frees_wait)
{
        void *all[] = {alloc(), must_alloc(GPUMEM_PINNED, N_BYTES), alloc_shareable(), alloc()};

        for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
                pthread_t thread;

                gate_hold(&gate, side);
                use_aside(all[i]);
                ck_assert_int_eq(pthread_create(&thread, NULL, open_later, &gate), 0);
                if (i == 0)
                        ck_assert_int_eq(gpumem_free_sync(client, all[i]), 0);
                else
                        must_free(all[i]);
                if (i != 0 && i != 2)
                        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
                ck_assert_int_eq(cuda.cuStreamQuery(side), CUDA_SUCCESS);
                ck_assert_int_eq(pthread_join(thread, NULL), 0);
        }
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 0);
}

/* Its block goes to the idle list meanwhile. */
TEST(a_second_free_is_told)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        void *pointer = must_alloc(GPUMEM_DEVICE, 128 * MIB);

        must_free(pointer);
        for (unsigned i = 0; i < 40; i++) {
                ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), GPUMEM_E_NOT_OURS);
                ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_NOT_OURS);
                ck_assert_int_eq(gpumem_describe(client, pointer, &info), GPUMEM_E_NOT_OURS);
                sleep_ms(1);
        }
}

/* The service thread ends the free. */
static void pass_aside(enum gpumem_kind kind)
{
        void *used = must_alloc(kind, N_BYTES);

        gate_hold(&gate, side);
        use_aside(used);
        must_free(used);
        gate_open(&gate);
        AWAIT(nearest_stats(client, kind).n_allocated_bytes == 0);
}

/* With a cache size other frees wait where it is exceeded. The driver waits for every kernel where it unregisters, so
 * pinned memory stays until a call that waits. */
TEST(with_a_cache_size_the_free_waits_for_no_other_work, .to = 2)
{
        const enum gpumem_kind kind = _i ? GPUMEM_PINNED : GPUMEM_DEVICE;

        ck_assert_int_eq(gpumem_set_cache_size(client, 0), 0);
        gate_hold(&endless, aside);
        pass_aside(kind);
        pass_aside(GPUMEM_DEVICE);
        AWAIT(device_stats().n_reserved_bytes == 0);
        gate_open(&endless);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(nearest_stats(client, kind).n_reserved_bytes, 0);
}

/* Then the call itself frees it. */
TEST(nor_does_it_where_that_of_the_others_is_over)
{
        void *used;

        ck_assert_int_eq(gpumem_set_cache_size(client, 0), 0);
        gate_hold(&endless, aside);
        used = alloc();
        use_aside(used);
        must_free(used);
        AWAIT(device_stats().n_reserved_bytes == 0);
}

static void *use_and_free(void *unused)
{
        ck_assert_int_eq(gpu_use(gpu), 0);
        for (unsigned i = 0; i < 200; i++) {
                void *used = alloc();

                use_aside(used);
                must_free(used);
                if (i % 4 == 0)
                        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        }
        return unused;
}

/* One thread's free is ended by another one, as soon as that can see it. */
TEST(frees_are_ended_by_other_threads)
{
        pthread_t threads[3];

        for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, use_and_free, NULL), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        await_allocated(0);
}

TEST(bad_calls_are_told)
{
        void *used = alloc();
        char here;

        ck_assert_int_eq(gpumem_record_use(client, &here, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_record_use(client, NULL, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_record_use(client, (char *)used + 512, side), GPUMEM_E_NOT_OURS);
        must_free(used);
        ck_assert_int_eq(gpumem_record_use(client, used, side), GPUMEM_E_NOT_OURS);
}

TESTS_MAIN("uses", .limit_s = 60, .start = start, .stop = stop)
