/* SPDX-License-Identifier: Apache-2.0 */
/* Events that are recorded in a whole context: what work they cover, and what they do to captures. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define NOT_READY CUDA_ERROR_NOT_READY
#define N_BYTES   ((size_t)1 << 16)
#define N_STREAMS 3

static CUcontext context;

static CUstream non_blocking(void)
{
        return contract_stream(CU_STREAM_NON_BLOCKING);
}

static CUstream blocking(void)
{
        return contract_stream(CU_STREAM_DEFAULT);
}

static CUstream legacy(void)
{
        return CU_STREAM_LEGACY;
}

static CUstream per_thread(void)
{
        return CU_STREAM_PER_THREAD;
}

static CUstream (*const kinds[])(void) = {non_blocking, blocking, legacy, per_thread};

TEST(it_passes_with_the_work_of_any_stream, .to = ARRAY_SIZE(kinds))
{
        struct contract_gate gate;
        CUevent event;

        context = contract_context();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(kinds[_i](), &gate);
        ck_ok(cu.cuCtxRecordEvent(context, event));
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
        ck_ok(cu.cuEventDestroy(event));
}

TEST(it_passes_with_the_work_of_a_destroyed_stream)
{
        struct contract_gate gate;
        CUstream stream;
        CUevent event;

        context = contract_context();
        stream = non_blocking();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuStreamDestroy(stream));
        ck_ok(cu.cuCtxRecordEvent(context, event));
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
}

TEST(it_passes_with_the_last_of_several_streams)
{
        struct contract_gate gates[N_STREAMS];
        CUevent event;

        context = contract_context();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuCtxRecordEvent(context, event));
        ck_ok(cu.cuEventSynchronize(event));
        for (int i = 0; i < N_STREAMS; i++)
                contract_hold(non_blocking(), &gates[i]);
        ck_ok(cu.cuCtxRecordEvent(context, event));
        for (int i = 0; i < N_STREAMS; i++) {
                ck_cuda(NOT_READY, cu.cuEventQuery(event));
                contract_open(&gates[i]);
        }
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
}

/* The same stream has work before and after it, and another stream after it only. */
TEST(it_does_not_wait_for_what_comes_later)
{
        struct contract_gate before, after, elsewhere;
        CUstream stream, other;
        CUevent event;

        context = contract_context();
        stream = non_blocking();
        other = non_blocking();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(stream, &before);
        ck_ok(cu.cuCtxRecordEvent(context, event));
        contract_hold(stream, &after);
        contract_hold(other, &elsewhere);
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&before);
        ck_ok(cu.cuEventSynchronize(event));
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        ck_cuda(NOT_READY, cu.cuStreamQuery(other));
        contract_open(&after);
        contract_open(&elsewhere);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_ok(cu.cuStreamSynchronize(other));
}

TEST(a_stream_waits_for_the_work_of_all)
{
        struct contract_gate gates[2];
        CUstream filling, busy, reading;
        CUdeviceptr address;
        CUevent event;
        void *bytes;

        context = contract_context();
        filling = non_blocking();
        busy = non_blocking();
        reading = non_blocking();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuMemAlloc(&address, N_BYTES));
        ck_ok(cu.cuMemHostAlloc(&bytes, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        memset(bytes, 0, N_BYTES);
        contract_hold(filling, &gates[0]);
        ck_ok(cu.cuMemsetD8Async(address, 0x71, N_BYTES, filling));
        contract_hold(busy, &gates[1]);
        ck_ok(cu.cuCtxRecordEvent(context, event));
        ck_ok(cu.cuStreamWaitEvent(reading, event, 0));
        /* The wait is for what was recorded when it was called. */
        ck_ok(cu.cuEventDestroy(event));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, reading));
        ck_cuda(NOT_READY, cu.cuStreamQuery(reading));
        contract_open(&gates[0]);
        ck_cuda(NOT_READY, cu.cuStreamQuery(reading));
        contract_open(&gates[1]);
        ck_ok(cu.cuStreamSynchronize(reading));
        ck_assert_uint_eq(*(unsigned char *)bytes, 0x71);
}

/* Which context is current does not matter. */
TEST(it_is_of_one_context)
{
        struct contract_gate gate;
        CUcontext other;
        CUevent own, others;
        CUstream stream;

        context = contract_context();
        own = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuCtxCreate(&other, NULL, 0, 0));
        others = contract_event(CU_EVENT_DISABLE_TIMING);
        stream = non_blocking();
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuCtxRecordEvent(context, others));
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuCtxRecordEvent(other, own));
        contract_hold(stream, &gate);
        ck_ok(cu.cuCtxRecordEvent(context, own));
        ck_ok(cu.cuCtxRecordEvent(other, others));
        ck_cuda(NOT_READY, cu.cuEventQuery(others));
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_ok(cu.cuCtxRecordEvent(context, own));
        ck_ok(cu.cuCtxSetCurrent(context));
        ck_ok(cu.cuEventSynchronize(own));
        ck_ok(cu.cuCtxSetCurrent(other));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(others));
}

static CUevent recorded;

static CUresult record(void)
{
        return cu.cuCtxRecordEvent(context, recorded);
}

static CUresult record_relaxed(void)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUresult r;

        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        r = record();
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        return r;
}

static void *relaxed_thread(void *result)
{
        *(CUresult *)result = record_relaxed();
        return NULL;
}

static CUresult record_elsewhere(void)
{
        CUresult result = CUDA_ERROR_UNKNOWN;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, relaxed_thread, &result), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        return result;
}

static CUresult (*const callers[])(void) = {record, record_relaxed, record_elsewhere};

static CUstreamCaptureStatus status_of(CUstream stream)
{
        CUstreamCaptureStatus status;

        ck_ok(cu.cuStreamIsCapturing(stream, &status));
        return status;
}

/* In each mode of the capture, and whatever the calling thread's mode is. */
TEST(a_capture_in_the_context_is_lost, .to = ARRAY_SIZE(callers))
{
        CUgraph graph;
        CUstream stream;

        context = contract_context();
        recorded = contract_event(CU_EVENT_DISABLE_TIMING);
        stream = non_blocking();
        for (int mode = 0; mode < 3; mode++) {
                ck_ok(record());
                ck_ok(cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
                ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, callers[_i]());
                ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
                graph = (CUgraph)stream;
                ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                        cu.cuStreamEndCapture(stream, &graph));
                ck_assert_ptr_null(graph);
                ck_ok(callers[_i]());
                ck_ok(cu.cuEventSynchronize(recorded));
        }
}

TEST(a_capture_in_another_context_goes_on, .to = ARRAY_SIZE(callers))
{
        CUgraph graph = NULL;
        CUcontext other;
        CUstream stream;

        context = contract_context();
        recorded = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuCtxCreate(&other, NULL, 0, 0));
        stream = non_blocking();
        for (int mode = 0; mode < 3; mode++) {
                ck_ok(cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
                ck_ok(callers[_i]());
                ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
                ck_ok(cu.cuStreamEndCapture(stream, &graph));
                ck_ok(cu.cuGraphDestroy(graph));
        }
}

static bool has_context_events(void)
{
        return contract_has("cuCtxRecordEvent");
}

CONTRACT_MAIN("events of whole contexts", .can_run = has_context_events,
              .needs = "cuCtxRecordEvent")
