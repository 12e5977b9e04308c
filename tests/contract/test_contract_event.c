/* Events. */
#include <string.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define NOT_READY CUDA_ERROR_NOT_READY
#define N_BYTES   ((size_t)1 << 16)

static CUstream stream_new(unsigned flags)
{
        CUstream stream;

        ck_ok(cu.cuStreamCreate(&stream, flags));
        return stream;
}

static CUevent event_new(unsigned flags)
{
        CUevent event;

        ck_ok(cu.cuEventCreate(&event, flags));
        return event;
}

static CUdeviceptr alloc(void)
{
        CUdeviceptr address;

        ck_ok(cu.cuMemAlloc(&address, N_BYTES));
        return address;
}

/* Pinned, so that copies are asynchronous. */
static unsigned char *pinned(void)
{
        void *bytes;

        ck_ok(cu.cuMemHostAlloc(&bytes, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        memset(bytes, 0, N_BYTES);
        return bytes;
}

TEST(an_event_passes_with_the_work_before_it)
{
        struct contract_gate gate;
        CUstream stream;
        CUevent event;

        (void)contract_context();
        stream = stream_new(CU_STREAM_NON_BLOCKING);
        event = event_new(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuEventQuery(event));
        ck_ok(cu.cuEventSynchronize(event));
        contract_hold(stream, &gate);
        ck_ok(cu.cuEventRecord(event, stream));
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
        /* Recorded again, it stands for the new place. */
        contract_hold(stream, &gate);
        ck_ok(cu.cuEventQuery(event));
        ck_ok(cu.cuEventRecord(event, stream));
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventDestroy(event));
}

TEST(an_event_outlives_its_stream)
{
        struct contract_gate gate;
        CUstream stream;
        CUevent event;

        (void)contract_context();
        stream = stream_new(CU_STREAM_NON_BLOCKING);
        event = event_new(CU_EVENT_DISABLE_TIMING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuEventRecord(event, stream));
        ck_ok(cu.cuStreamDestroy(stream));
        ck_cuda(NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
}

TEST(a_stream_waits_for_an_event)
{
        struct contract_gate gate;
        unsigned char *bytes;
        CUstream first, second;
        CUdeviceptr address;
        CUevent event;

        (void)contract_context();
        first = stream_new(CU_STREAM_NON_BLOCKING);
        second = stream_new(CU_STREAM_NON_BLOCKING);
        event = event_new(CU_EVENT_DISABLE_TIMING);
        address = alloc();
        bytes = pinned();
        ck_ok(cu.cuStreamWaitEvent(second, event, 0));
        contract_hold(first, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x71, N_BYTES, first));
        ck_ok(cu.cuEventRecord(event, first));
        ck_ok(cu.cuStreamWaitEvent(second, event, 0));
        /* The wait is for what was recorded when it was called. */
        ck_ok(cu.cuEventDestroy(event));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, second));
        ck_cuda(NOT_READY, cu.cuStreamQuery(second));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(second));
        ck_assert_uint_eq(bytes[0], 0x71);
}

/* Another stream's work holds up neither the making of an event nor its recording elsewhere. */
TEST(events_are_recorded_beside_a_busy_stream)
{
        CUstream busy, others[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, NULL};
        struct contract_gate gate;

        (void)contract_context();
        busy = stream_new(CU_STREAM_NON_BLOCKING);
        others[2] = stream_new(CU_STREAM_NON_BLOCKING);
        contract_hold(busy, &gate);
        contract_await(&gate);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                CUevent event = event_new(CU_EVENT_DISABLE_TIMING);

                ck_ok(cu.cuEventRecord(event, others[i]));
                ck_ok(cu.cuEventSynchronize(event));
                ck_ok(cu.cuEventDestroy(event));
        }
        ck_cuda(NOT_READY, cu.cuStreamQuery(busy));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(busy));
}

TEST(events_measure_time)
{
        struct contract_gate gate;
        CUevent start, end;
        CUstream stream;
        float ms = -1;

        (void)contract_context();
        stream = stream_new(CU_STREAM_NON_BLOCKING);
        start = event_new(CU_EVENT_DEFAULT);
        end = event_new(CU_EVENT_DEFAULT);
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, start, end));
        ck_ok(cu.cuEventRecord(start, stream));
        contract_hold(stream, &gate);
        ck_ok(cu.cuEventRecord(end, stream));
        ck_ok(cu.cuEventSynchronize(start));
        ck_cuda(NOT_READY, cu.cuEventElapsedTime(&ms, start, end));
        contract_open(&gate);
        ck_ok(cu.cuEventSynchronize(end));
        ck_ok(cu.cuEventElapsedTime(&ms, start, end));
        ck_assert_float_gt(ms, 0);
        ck_ok(cu.cuEventDestroy(end));
        end = event_new(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuEventRecord(end, stream));
        ck_ok(cu.cuEventSynchronize(end));
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, start, end));
}

CONTRACT_MAIN("events")
