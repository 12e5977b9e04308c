/* SPDX-License-Identifier: Apache-2.0 */
/* Events of whole contexts, where CUDA does not say what a driver does, or the H200 was not asked. */
#include <signal.h>

#include "base/err.h"
#include "tests/contract/contract.h"

static CUcontext context;

TEST(what_is_no_context_or_event_is_refused)
{
        CUevent event, destroyed;

        context = contract_context();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        destroyed = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuEventDestroy(destroyed));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxRecordEvent(NULL, event));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxRecordEvent((CUcontext)event, event));
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuCtxRecordEvent(context, destroyed));
        ck_cuda(CUDA_ERROR_INVALID_HANDLE, cu.cuCtxRecordEvent(context, (CUevent)context));
}

TEST(its_time_is_that_of_the_last_work)
{
        CUevent start, end;
        struct contract_gate gates[2];
        float ms = -1;

        context = contract_context();
        start = contract_event(CU_EVENT_DEFAULT);
        end = contract_event(CU_EVENT_DEFAULT);
        ck_ok(cu.cuCtxRecordEvent(context, start));
        for (size_t i = 0; i < ARRAY_SIZE(gates); i++)
                contract_hold(contract_stream(CU_STREAM_NON_BLOCKING), &gates[i]);
        ck_ok(cu.cuCtxRecordEvent(context, end));
        contract_open(&gates[0]);
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&ms, start, end));
        contract_open_later(&gates[1]);
        ck_ok(cu.cuEventSynchronize(end));
        ck_ok(cu.cuEventElapsedTime(&ms, start, end));
        ck_assert_float_ge(ms, 20);
        /* With nothing left to wait for it has the time of the call. */
        ck_ok(cu.cuCtxRecordEvent(context, start));
        ck_ok(cu.cuEventElapsedTime(&ms, end, start));
        ck_assert_float_ge(ms, 0);
}

TEST(a_spoilt_context_says_so)
{
        struct contract_block block;
        struct contract_gate gate;
        CUstream stream;
        CUevent event;

        context = contract_context();
        block = contract_map(contract_create(CONTRACT_GRANULE, CU_MEM_HANDLE_TYPE_NONE),
                             CONTRACT_GRANULE);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(block.address, 1, CONTRACT_GRANULE, stream));
        ck_ok(cu.cuCtxRecordEvent(context, event));
        ck_ok(cu.cuMemUnmap(block.address, CONTRACT_GRANULE));
        contract_open(&gate);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventSynchronize(event));
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventQuery(event));
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxRecordEvent(context, event));
}

TEST(a_context_that_was_destroyed_ends_the_process, .signal = SIGABRT)
{
        CUevent event;

        (void)contract_context();
        ck_ok(cu.cuCtxCreate(&context, NULL, 0, 0));
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuCtxDestroy(context));
        (void)cu.cuCtxRecordEvent(context, event);
}

TEST(a_context_that_was_released_ends_the_process, .signal = SIGABRT)
{
        CUevent event;

        context = contract_context();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        (void)cu.cuCtxRecordEvent(context, event);
}

/* The context is there again, and the event is not of this life of it. */
TEST(an_event_of_a_context_that_was_made_again_ends_the_process, .signal = SIGABRT)
{
        CUevent event;

        context = contract_context();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        ck_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
        (void)cu.cuCtxRecordEvent(context, event);
}

CONTRACT_MAIN("events of whole contexts")
