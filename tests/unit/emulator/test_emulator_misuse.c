/* SPDX-License-Identifier: Apache-2.0 */
/* What may crash the driver, or pass unseen, the emulated one refuses, or ends the process for it: so a mistake
 * shows. */
#include <pthread.h>
#include <signal.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define INVALID CUDA_ERROR_INVALID_VALUE

TEST(host_memory_is_freed_once)
{
        void *bytes;

        (void)contract_context();
        ck_ok(cu.cuMemHostAlloc(&bytes, 4096, CU_MEMHOSTALLOC_PORTABLE));
        ck_ok(cu.cuMemFreeHost(bytes));
        ck_cuda(INVALID, cu.cuMemFreeHost(bytes));
}

TEST(a_handle_that_is_none_is_not_exported)
{
        CUmemGenericAllocationHandle handle;
        int fd = -5;

        contract_init();
        handle = contract_create(CONTRACT_GRANULE, FD);
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&fd, handle + 1, FD, 0));
        ck_ok(cu.cuMemRelease(handle));
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(&fd, handle, FD, 0));
        ck_assert_int_eq(fd, -5);
}

TEST(an_export_needs_an_output)
{
        contract_init();
        ck_cuda(INVALID, cu.cuMemExportToShareableHandle(
                                 NULL, contract_create(CONTRACT_GRANULE, FD), FD, 0));
}

TEST(unmap_takes_whole_granules_of_one_reservation)
{
        CUdeviceptr address;

        contract_init();
        ck_ok(cu.cuMemAddressReserve(&address, 2 * CONTRACT_GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemUnmap(address, 2 * CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, 0));
        ck_cuda(INVALID, cu.cuMemUnmap(address + 4096, CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, CONTRACT_GRANULE / 2));
        ck_cuda(INVALID, cu.cuMemUnmap(address + CONTRACT_GRANULE, 2 * CONTRACT_GRANULE));
        ck_ok(cu.cuMemAddressFree(address, 2 * CONTRACT_GRANULE));
        ck_cuda(INVALID, cu.cuMemUnmap(address, CONTRACT_GRANULE));
}

/* What is mapped goes if it lies inside, whatever is vacant around it. */
TEST(unmap_takes_what_lies_inside_and_cuts_nothing)
{
        const size_t granule = CONTRACT_GRANULE;
        CUmemGenericAllocationHandle one, two;
        CUdeviceptr address;

        contract_init();
        one = contract_create(granule, CU_MEM_HANDLE_TYPE_NONE);
        two = contract_create(2 * granule, CU_MEM_HANDLE_TYPE_NONE);
        ck_ok(cu.cuMemAddressReserve(&address, 6 * granule, 0, 0, 0));
        ck_ok(cu.cuMemMap(address + granule, granule, 0, one, 0));
        ck_ok(cu.cuMemMap(address + 3 * granule, 2 * granule, 0, two, 0));
        ck_cuda(INVALID, cu.cuMemUnmap(address, 4 * granule));
        ck_cuda(INVALID, cu.cuMemUnmap(address + 4 * granule, 2 * granule));
        ck_cuda(INVALID, cu.cuMemMap(address + granule, granule, 0, one, 0));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, 6 * granule));
        ck_ok(cu.cuMemUnmap(address, 6 * granule));
        ck_ok(cu.cuMemAddressFree(address, 6 * granule));
}

static CUstream used;
static CUevent event;
static CUcontext context;
static CUstreamCaptureStatus status;
static unsigned long long number;

#define CALL(name, expression)       \
        static CUresult name(void)   \
        {                            \
                return (expression); \
        }

CALL(get_id, cu.cuStreamGetId(used, &number))
CALL(get_status, cu.cuStreamIsCapturing(used, &status))
CALL(get_context, cu.cuStreamGetCtx(used, &context))
CALL(record_event, cu.cuEventRecord(event, used))
CALL(query, cu.cuStreamQuery(used))
CALL(wait_for_event, cu.cuStreamWaitEvent(used, event, 0))
CALL(synchronize, cu.cuStreamSynchronize(used))
CALL(fill, cu.cuMemsetD8Async(1, 1, 1, used))

static CUresult (*const uses[])(void) = {
        get_id, get_status, get_context, record_event, query, wait_for_event, synchronize, fill,
};

/* As the H200's driver does, which crashes. */
TEST(a_destroyed_stream_ends_the_process, .to = ARRAY_SIZE(uses), .signal = SIGABRT)
{
        (void)contract_context();
        event = contract_event(0);
        used = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamDestroy(used));
        (void)uses[_i]();
}

TEST(a_stream_whose_context_has_ended_ends_the_process, .signal = SIGABRT)
{
        (void)contract_context();
        used = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        (void)contract_context();
        (void)query();
}

static void *begin_and_end(void *stream)
{
        CUgraph graph;

        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        return NULL;
}

/* The calls beside it may spoil a capture. */
static void *capture_without_end(void *stream)
{
        CUgraph graph;

        while (stream) {
                (void)cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
                (void)cu.cuStreamEndCapture(stream, &graph);
        }
        return NULL;
}

static void CUDA_CB nothing(void *argument)
{
        (void)argument;
}

CALL(call_back, cu.cuLaunchHostFunc(used, nothing, NULL))
CALL(get_capture, cu.cuStreamGetCaptureInfo(used, &status, NULL, NULL, NULL, NULL, NULL))

static CUresult (*const uses_beside_captures[])(void) = {
        record_event, wait_for_event, call_back, get_id, get_capture, query, synchronize,
};

/* As the H100's driver does, which crashes. */
TEST(a_use_beside_a_capture_that_begins_or_ends_ends_the_process,
     .to = ARRAY_SIZE(uses_beside_captures), .signal = SIGABRT)
{
        pthread_t other;

        (void)contract_context();
        event = contract_event(0);
        ck_ok(cu.cuEventRecord(event, contract_stream(CU_STREAM_NON_BLOCKING)));
        used = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_assert_int_eq(pthread_create(&other, NULL, capture_without_end, used), 0);
        for (;;)
                (void)uses_beside_captures[_i]();
}

/* To ask whether it captures and for its context is safe, and so is work in another stream. */
TEST(work_in_another_stream_is_safe_beside_it)
{
        CUstream stream, beside;
        pthread_t other;

        (void)contract_context();
        event = contract_event(0);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        beside = contract_stream(CU_STREAM_NON_BLOCKING);
        for (unsigned i = 0; i < 20; i++) {
                ck_assert_int_eq(pthread_create(&other, NULL, begin_and_end, stream), 0);
                for (unsigned k = 0; k < 20; k++) {
                        ck_ok(cu.cuStreamIsCapturing(stream, &status));
                        ck_ok(cu.cuStreamGetCtx(stream, &context));
                        ck_ok(cu.cuEventRecord(event, beside));
                }
                ck_assert_int_eq(pthread_join(other, NULL), 0);
        }
}

CONTRACT_MAIN("misuse")
