/* SPDX-License-Identifier: Apache-2.0 */
/* Events. */

#include "base/err.h"
#include "tests/contract/contract.h"

#define NOT_READY CUDA_ERROR_NOT_READY
#define N_BYTES   ((size_t)1 << 16)

TEST(an_event_passes_with_the_work_before_it)
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);

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
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);

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
        CUstream first = contract_stream(CU_STREAM_NON_BLOCKING);
        CUstream second = contract_stream(CU_STREAM_NON_BLOCKING);
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);
        CUdeviceptr address = contract_alloc(N_BYTES);
        unsigned char *bytes = contract_pinned(N_BYTES);

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
        busy = contract_stream(CU_STREAM_NON_BLOCKING);
        others[2] = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(busy, &gate);
        contract_await(&gate);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);

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
        float ms = -1;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUevent start = contract_event(CU_EVENT_DEFAULT), end = contract_event(CU_EVENT_DEFAULT);

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
        end = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuEventRecord(end, stream));
        ck_ok(cu.cuEventSynchronize(end));
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, start, end));
}

CONTRACT_MAIN("events")
