/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: their order, among each other and by themselves. */
#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define INVALID   CUDA_ERROR_INVALID_VALUE
#define NOT_READY CUDA_ERROR_NOT_READY
#define N_BYTES   ((size_t)1 << 16)

TEST(a_stream_runs_in_order)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

        contract_hold(stream, &gate);
        for (unsigned i = 1; i <= 50; i++) {
                ck_ok(cu.cuMemsetD8Async(address, (unsigned char)i, N_BYTES, stream));
                ck_ok(cu.cuMemcpyDtoHAsync(bytes + i, address + 100, 1, stream));
        }
        ck_assert_uint_eq(bytes[1], 0);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        for (unsigned i = 1; i <= 50; i++)
                ck_assert_uint_eq(bytes[i], i);
}

TEST(a_query_tells_whether_work_is_left)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_ok(cu.cuStreamQuery(stream));
        contract_hold(stream, &gate);
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        contract_await(&gate);
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_ok(cu.cuStreamQuery(stream));
}

static const unsigned kinds[] = {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT};

TEST(streams_do_not_wait_for_each_other, .to = ARRAY_SIZE(kinds))
{
        struct contract_gate gate;
        CUstream held = contract_stream(kinds[_i]), free_one = contract_stream(kinds[_i]);
        CUdeviceptr address = contract_alloc(N_BYTES);

        contract_hold(held, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 5, N_BYTES, free_one));
        ck_ok(cu.cuStreamSynchronize(free_one));
        ck_cuda(NOT_READY, cu.cuStreamQuery(held));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(held));
}

TEST(a_context_synchronises_all_its_streams)
{
        struct contract_gate gates[3];
        CUstream streams[3];
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

        ck_ok(cu.cuMemsetD8(address, 0x2D, N_BYTES));
        for (int i = 0; i < 3; i++) {
                streams[i] = contract_stream(i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
                contract_hold(streams[i], &gates[i]);
                ck_ok(cu.cuMemcpyDtoHAsync(bytes + i, address, 1, streams[i]));
        }
        for (int i = 0; i < 3; i++)
                contract_open(&gates[i]);
        ck_ok(cu.cuCtxSynchronize());
        for (int i = 0; i < 3; i++)
                ck_assert_uint_eq(bytes[i], 0x2D);
}

TEST(a_destroyed_stream_finishes_its_work)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr address = contract_alloc(N_BYTES);

        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x61, N_BYTES, stream));
        ck_ok(cu.cuStreamDestroy(stream));
        contract_open(&gate);
        ck_ok(cu.cuCtxSynchronize());
        ck_assert_uint_eq(contract_read(address), 0x61);
}

TEST(ids_are_not_used_again)
{
        enum { N = 32 };
        unsigned long long ids[N];
        CUcontext context = contract_context(), found;

        for (int i = 0; i < N; i++) {
                CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

                ck_ok(cu.cuStreamGetId(stream, &ids[i]));
                ck_ok(cu.cuStreamGetCtx(stream, &found));
                ck_assert_ptr_eq(found, context);
                for (int j = 0; j < i; j++)
                        ck_assert_uint_ne(ids[i], ids[j]);
                ck_ok(cu.cuStreamDestroy(stream));
        }
}

TEST(the_default_stream_has_an_id)
{
        unsigned long long named = 1, null = 2, other;
        CUcontext context = contract_context(), found;

        ck_ok(cu.cuStreamGetId(NULL, &null));
        ck_ok(cu.cuStreamGetId(CU_STREAM_LEGACY, &named));
        ck_assert_uint_eq(named, null);
        ck_ok(cu.cuStreamGetId(contract_stream(CU_STREAM_NON_BLOCKING), &other));
        ck_assert_uint_ne(other, null);
        ck_ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &other));
        ck_assert_uint_ne(other, null);
        ck_ok(cu.cuStreamGetCtx(NULL, &found));
        ck_assert_ptr_eq(found, context);
}

static unsigned long long id_of(CUstream stream)
{
        unsigned long long id;

        ck_ok(cu.cuStreamGetId(stream, &id));
        return id;
}

/* The library asks for the id alone: which context a stream is of it does not look up. */
TEST(ids_are_no_other_contexts)
{
        enum { N = 16 };
        unsigned long long ids[2 * N + 2];
        CUcontext contexts[2] = {contract_context(), NULL};

        ck_ok(cu.cuCtxCreate(&contexts[1], NULL, 0, 0));
        for (int i = 0; i < 2 * N + 2; i++) {
                ck_ok(cu.cuCtxSetCurrent(contexts[i % 2]));
                ids[i] = id_of(i < 2 * N ? contract_stream(CU_STREAM_NON_BLOCKING) : NULL);
                for (int j = 0; j < i; j++)
                        ck_assert_uint_ne(ids[i], ids[j]);
        }
}

TEST(the_default_stream_waits_for_blocking_ones)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_DEFAULT);
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x41, N_BYTES, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, NULL));
        ck_cuda(NOT_READY, cu.cuStreamQuery(NULL));
        ck_assert_uint_eq(bytes[0], 0);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(NULL));
        ck_assert_uint_eq(bytes[0], 0x41);
}

TEST(blocking_streams_wait_for_the_default_one)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_DEFAULT);
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

        contract_hold(NULL, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x42, N_BYTES, CU_STREAM_LEGACY));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, stream));
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[0], 0x42);
}

TEST(other_streams_are_not_bound_to_the_default_one)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr address = contract_alloc(N_BYTES);

        contract_hold(NULL, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x43, N_BYTES, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_cuda(NOT_READY, cu.cuStreamQuery(CU_STREAM_LEGACY));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(NULL));
        contract_hold(stream, &gate);
        ck_ok(cu.cuStreamSynchronize(NULL));
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
}

static void *other_thread(void *argument)
{
        ck_ok(cu.cuCtxSetCurrent(argument));
        ck_ok(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
        return NULL;
}

TEST(the_per_thread_stream_is_the_threads_own)
{
        CUcontext context = contract_context();
        struct contract_gate gate;
        pthread_t thread;

        contract_hold(CU_STREAM_PER_THREAD, &gate);
        ck_cuda(NOT_READY, cu.cuStreamQuery(CU_STREAM_PER_THREAD));
        ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, context), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

struct own {
        CUcontext context;
        unsigned long long id;
};

static void *ask_for_own(void *argument)
{
        struct own *own = argument;

        ck_ok(cu.cuCtxSetCurrent(own->context));
        own->id = id_of(CU_STREAM_PER_THREAD);
        return NULL;
}

/* Its handle is the same in all. */
TEST(the_per_thread_stream_has_an_id_in_each_thread)
{
        struct own own = {.context = contract_context()};
        unsigned long long id = id_of(CU_STREAM_PER_THREAD);
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, ask_for_own, &own), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_ne(own.id, id);
        ck_assert_uint_eq(id_of(CU_STREAM_PER_THREAD), id);
}

TEST(streams_and_events_refuse_flags)
{
        CUstream stream;
        CUevent event;

        (void)contract_context();
        ck_cuda(INVALID, cu.cuStreamCreate(&stream, 0x100));
        ck_cuda(INVALID, cu.cuStreamCreate(NULL, 0));
        ck_cuda(INVALID, cu.cuEventCreate(&event, 0x100));
        ck_cuda(INVALID, cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS));
        ck_cuda(INVALID, cu.cuEventCreate(NULL, 0));
        ck_ok(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1));
        ck_ok(cu.cuStreamDestroy(stream));
}

TEST(priorities_have_a_range)
{
        int least = 7, greatest = 7;

        (void)contract_context();
        ck_ok(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
        ck_assert_int_eq(least, 0);
        ck_assert_int_lt(greatest, least);
        ck_ok(cu.cuCtxGetStreamPriorityRange(NULL, NULL));
}

/* Those beyond the range are brought into it. */
TEST(a_stream_has_the_nearest_priority)
{
        int least, greatest, priority = 7;

        (void)contract_context();
        ck_ok(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
        for (int wanted = greatest - 2; wanted <= least + 2; wanted++) {
                int nearest = wanted < greatest ? greatest : wanted;
                CUstream stream;

                ck_ok(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, wanted));
                ck_ok(cu.cuStreamGetPriority(stream, &priority));
                ck_assert_int_eq(priority, nearest > least ? least : nearest);
                ck_ok(cu.cuStreamDestroy(stream));
        }
}

TEST(streams_tell_what_they_were_made_with)
{
        const CUstream defaults[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
        unsigned flags = 7;
        CUdevice device = 7;
        CUstream stream;
        int priority;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamGetFlags(stream, &flags));
        ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamGetDevice(stream, &device));
        ck_assert_int_eq(device, 0);
        for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
                flags = 7, priority = 7;
                ck_ok(cu.cuStreamGetFlags(defaults[i], &flags));
                ck_assert_uint_eq(flags, CU_STREAM_DEFAULT);
                ck_ok(cu.cuStreamGetPriority(defaults[i], &priority));
                ck_assert_int_eq(priority, 0);
        }
        ck_cuda(INVALID, cu.cuStreamGetFlags(stream, NULL));
        ck_cuda(INVALID, cu.cuStreamGetPriority(stream, NULL));
}

TEST(no_stream_captures)
{
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

        (void)contract_context();
        ck_ok(cu.cuStreamIsCapturing(contract_stream(CU_STREAM_NON_BLOCKING), &status));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
        status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        ck_ok(cu.cuStreamIsCapturing(NULL, &status));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void call_the_driver(void *argument)
{
        CUdeviceptr address;

        *(CUresult *)argument = cu.cuMemAlloc(&address, 4096);
}

TEST(a_host_function_may_not_call_the_driver)
{
        CUresult result = CUDA_SUCCESS;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_ok(cu.cuLaunchHostFunc(stream, call_the_driver, &result));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_cuda(CUDA_ERROR_NOT_PERMITTED, result);
        ck_cuda(INVALID, cu.cuLaunchHostFunc(stream, NULL, NULL));
}

TEST(one_copy_of_any_kind_is_ordered_too)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD32Async(address, 0x0A0B0C0D, N_BYTES / 4, stream));
        ck_ok(cu.cuMemcpyDtoDAsync(address + 1, address + 4, 1, stream));
        ck_ok(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)bytes, address, 4, stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[0], 0x0D);
        ck_assert_uint_eq(bytes[1], 0x0D);
        ck_assert_uint_eq(bytes[2], 0x0B);
}

CONTRACT_MAIN("streams")
