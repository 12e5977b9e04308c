/* SPDX-License-Identifier: Apache-2.0 */
/* Events that one thread records in a stream that another thread captures: the first thread's mode is RELAXED,
 * and it does not know of the capture. */
#include <pthread.h>

#include "tests/contract/contract.h"

#define N_MODES 3

static CUcontext context;
static CUstream captured, other;
static CUevent event;
static CUdeviceptr memory;

/* One node is there, the tip of the stream, and the event is recorded behind it. */
static CUgraphNode node;

static CUresult record(void)
{
        return cu.cuEventRecord(event, captured);
}

static CUresult record_in_the_other(void)
{
        return cu.cuEventRecord(event, other);
}

static CUresult wait_for_it(void)
{
        return cu.cuEventSynchronize(event);
}

static CUresult query(void)
{
        return cu.cuEventQuery(event);
}

static CUresult destroy(void)
{
        return cu.cuEventDestroy(event);
}

struct errand {
        CUresult (*call)(void);
        CUresult result;
};

static void *run_errand(void *argument)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        struct errand *errand = argument;

        ck_ok(cu.cuCtxSetCurrent(context));
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        errand->result = errand->call();
        return NULL;
}

static CUresult by_another_thread(CUresult (*call)(void))
{
        struct errand errand = {.call = call, .result = CUDA_ERROR_UNKNOWN};
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, run_errand, &errand), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        return errand.result;
}

static CUgraphNode tip(void)
{
        const CUgraphNode *nodes;
        CUstreamCaptureStatus status;
        size_t n;

        ck_ok(cu.cuStreamGetCaptureInfo(captured, &status, NULL, NULL, &nodes, NULL, &n));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        ck_assert_uint_eq(n, 1);
        return nodes[0];
}

static void begin(int mode)
{
        context = contract_context();
        captured = contract_stream(CU_STREAM_NON_BLOCKING);
        other = contract_stream(CU_STREAM_NON_BLOCKING);
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuMemAlloc(&memory, 4096));
        ck_ok(cu.cuStreamBeginCapture(captured, (CUstreamCaptureMode)mode));
        ck_ok(cu.cuMemsetD8Async(memory, 1, 4096, captured));
        node = tip();
        ck_ok(by_another_thread(record));
        ck_assert_ptr_eq(tip(), node);
}

static void end_well(void)
{
        CUgraph graph = NULL;

        ck_assert_ptr_eq(tip(), node);
        ck_ok(cu.cuStreamEndCapture(captured, &graph));
        ck_assert_ptr_nonnull(graph);
        ck_ok(cu.cuGraphDestroy(graph));
}

TEST(to_record_it_harms_nothing, .to = N_MODES)
{
        begin(_i);
        ck_ok(by_another_thread(record));
        end_well();
        ck_cuda(CUDA_ERROR_INVALID_VALUE, query());
}

TEST(to_query_it_loses_the_capture, .to = N_MODES)
{
        CUstreamCaptureStatus status;
        CUgraph graph;

        begin(_i);
        graph = (CUgraph)captured;
        ck_cuda(CUDA_ERROR_CAPTURED_EVENT, by_another_thread(query));
        ck_ok(cu.cuStreamIsCapturing(captured, &status));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(captured, &graph));
        ck_assert_ptr_null(graph);
        ck_cuda(CUDA_ERROR_INVALID_VALUE, by_another_thread(query));
}

TEST(to_destroy_it_harms_nothing, .to = N_MODES)
{
        begin(_i);
        ck_ok(by_another_thread(destroy));
        end_well();
}

TEST(recorded_in_another_stream_it_is_as_any, .to = N_MODES)
{
        begin(_i);
        ck_ok(by_another_thread(record_in_the_other));
        ck_ok(by_another_thread(wait_for_it));
        ck_ok(by_another_thread(query));
        end_well();
        ck_ok(query());
}

TEST(it_is_as_any_once_recorded_after_the_capture, .to = N_MODES)
{
        begin(_i);
        end_well();
        ck_cuda(CUDA_ERROR_INVALID_VALUE, by_another_thread(query));
        ck_ok(by_another_thread(record));
        ck_ok(by_another_thread(wait_for_it));
        ck_ok(query());
}

CONTRACT_MAIN("captured events")
