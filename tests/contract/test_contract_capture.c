/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: which streams are part of one, what is known of it, and how it ends. */
#include <pthread.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define INVALID CUDA_ERROR_INVALID_VALUE
#define GLOBAL  CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED
#define NONE    CU_STREAM_CAPTURE_STATUS_NONE
#define ACTIVE  CU_STREAM_CAPTURE_STATUS_ACTIVE
#define LOST    CU_STREAM_CAPTURE_STATUS_INVALIDATED

static CUstream stream_capturing(CUstreamCaptureMode mode)
{
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_ok(cu.cuStreamBeginCapture(stream, mode));
        return stream;
}

/* What is submitted to `after` from now on comes after what `before` has. */
static CUresult order(CUstream before, CUstream after)
{
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);

        ck_ok(cu.cuEventRecord(event, before));
        return cu.cuStreamWaitEvent(after, event, 0);
}

static void work(CUstream stream)
{
        static CUdeviceptr address;
        CUstreamCaptureMode mode = RELAXED;

        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        if (!address)
                ck_ok(cu.cuMemAlloc(&address, 4096));
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        ck_ok(cu.cuMemsetD8Async(address, 1, 4096, stream));
}

static int status_of(CUstream stream)
{
        CUstreamCaptureStatus status;

        ck_ok(cu.cuStreamIsCapturing(stream, &status));
        return (int)status;
}

static void check_end(CUresult expected, CUstream stream)
{
        CUgraph graph = (CUgraph)&graph;

        ck_cuda(expected, cu.cuStreamEndCapture(stream, &graph));
        ck_assert_int_eq(status_of(stream), NONE);
        if (expected == CUDA_SUCCESS)
                ck_ok(cu.cuGraphDestroy(graph));
        else
                ck_assert_ptr_null(graph);
}

TEST(a_capture_begins_and_ends)
{
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);
        CUstream other = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_cuda(INVALID, cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)7));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamBeginCapture(NULL, GLOBAL));
        ck_cuda(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(stream, NULL));
        ck_ok(cu.cuStreamBeginCapture(stream, GLOBAL));
        ck_cuda(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamBeginCapture(stream, GLOBAL));
        ck_cuda(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(other, NULL));
        ck_assert_int_eq(status_of(stream), ACTIVE);
        ck_assert_int_eq(status_of(other), NONE);
        ck_cuda(INVALID, cu.cuStreamIsCapturing(stream, NULL));
        check_end(CUDA_SUCCESS, stream);
        ck_ok(cu.cuStreamBeginCapture(CU_STREAM_PER_THREAD, GLOBAL));
        ck_assert_int_eq(status_of(CU_STREAM_PER_THREAD), ACTIVE);
        check_end(CUDA_SUCCESS, CU_STREAM_PER_THREAD);
}

static CUresult info_of(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                        CUgraph *graph, size_t *n)
{
        const CUgraphNode *nodes = NULL;
        CUresult r = cu.cuStreamGetCaptureInfo(stream, status, id, graph, &nodes, NULL, n);

        if (r == CUDA_SUCCESS && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE && *n)
                ck_assert_ptr_nonnull(nodes);
        return r;
}

TEST(a_capture_has_an_id_a_graph_and_ends_of_its_streams)
{
        CUstream stream;
        CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
        CUgraph graph = NULL, same = NULL;
        cuuint64_t id = 77, later;
        size_t n = 55;
        CUstream joined = contract_stream(CU_STREAM_NON_BLOCKING);

        ck_ok(info_of(joined, &status, &id, &graph, &n));
        ck_assert_int_eq(status, NONE);
        ck_assert_ptr_null(graph);
        ck_assert_uint_eq(id, 77);
        stream = stream_capturing(GLOBAL);
        ck_cuda(INVALID, cu.cuStreamGetCaptureInfo(stream, NULL, NULL, NULL, NULL, NULL, NULL));
        ck_ok(cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
        ck_assert_int_eq(status, ACTIVE);
        ck_ok(info_of(stream, &status, &id, &graph, &n));
        ck_assert_uint_eq(n, 0);
        work(stream);
        work(stream);
        ck_ok(order(stream, joined));
        work(joined);
        ck_ok(order(joined, stream));
        ck_ok(info_of(joined, &status, &later, &same, &n));
        ck_assert_uint_eq(later, id);
        ck_assert_ptr_eq(same, graph);
        ck_assert_uint_eq(n, 1);
        ck_ok(cu.cuStreamEndCapture(stream, &same));
        ck_assert_ptr_eq(same, graph);
        ck_ok(cu.cuStreamBeginCapture(stream, GLOBAL));
        ck_ok(info_of(stream, &status, &later, NULL, &n));
        ck_assert_uint_ne(later, id);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(stream));
        ck_ok(info_of(stream, &status, &id, NULL, &n));
        ck_assert_int_eq(status, LOST);
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
}

TEST(a_stream_that_waits_for_a_capture_joins_it)
{
        CUstream stream;
        CUstream joined = contract_stream(CU_STREAM_NON_BLOCKING);

        /* One that did nothing need not come back. */
        stream = stream_capturing(GLOBAL);
        work(stream);
        ck_ok(order(stream, joined));
        work(stream);
        ck_assert_int_eq(status_of(joined), ACTIVE);
        check_end(CUDA_SUCCESS, stream);
        ck_assert_int_eq(status_of(joined), NONE);
        ck_ok(cu.cuStreamBeginCapture(stream, GLOBAL));
        ck_ok(order(stream, joined));
        work(joined);
        ck_ok(order(joined, stream));
        check_end(CUDA_SUCCESS, stream);
        ck_ok(cu.cuStreamBeginCapture(stream, GLOBAL));
        ck_ok(order(stream, joined));
        work(joined);
        check_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, stream);
        ck_assert_int_eq(status_of(joined), NONE);
        work(joined);
        ck_ok(cu.cuStreamSynchronize(joined));
}

TEST(what_spoils_a_capture_spoils_it_for_all_its_streams)
{
        CUstream joined = contract_stream(CU_STREAM_NON_BLOCKING);
        CUstream stream = stream_capturing(GLOBAL);
        CUstream alone = stream_capturing(RELAXED);

        ck_ok(order(stream, joined));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(joined));
        ck_assert_int_eq(status_of(stream), LOST);
        ck_assert_int_eq(status_of(joined), LOST);
        ck_assert_int_eq(status_of(alone), ACTIVE);
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
        ck_assert_int_eq(status_of(joined), NONE);
        ck_assert_int_eq(status_of(alone), ACTIVE);
        check_end(CUDA_SUCCESS, alone);
}

TEST(captures_are_not_merged)
{
        CUstream first = stream_capturing(GLOBAL), second = stream_capturing(GLOBAL);

        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_MERGE, order(first, second));
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, first);
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, second);
}

TEST(an_event_of_a_capture_that_is_over_is_of_no_use)
{
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);
        CUstream other = contract_stream(CU_STREAM_NON_BLOCKING), stream = stream_capturing(GLOBAL);

        ck_ok(cu.cuEventRecord(event, stream));
        check_end(CUDA_SUCCESS, stream);
        ck_cuda(INVALID, cu.cuEventQuery(event));
        ck_cuda(INVALID, cu.cuStreamWaitEvent(other, event, 0));
        ck_ok(cu.cuEventRecord(event, stream));
        ck_ok(cu.cuEventSynchronize(event));
        ck_ok(cu.cuEventQuery(event));
}

TEST(a_destroyed_stream_leaves_its_capture)
{
        CUstream stream, joined;

        (void)contract_context();
        ck_ok(cu.cuStreamDestroy(stream_capturing(GLOBAL)));
        stream = stream_capturing(GLOBAL);
        joined = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(order(stream, joined));
        work(joined);
        ck_ok(cu.cuStreamDestroy(joined));
        ck_assert_int_eq(status_of(stream), ACTIVE);
        check_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, stream);
}

static CUdeviceptr somewhere;

static CUresult default_fill(void)
{
        return cu.cuMemsetD8Async(somewhere, 1, 4, NULL);
}

static CUresult default_record(void)
{
        return cu.cuEventRecord(contract_event(CU_EVENT_DISABLE_TIMING), NULL);
}

static CUresult default_wait(void)
{
        return cu.cuStreamSynchronize(NULL);
}

static CUresult default_query(void)
{
        return cu.cuStreamQuery(NULL);
}

static CUresult (*const of_the_default[])(void) = {default_fill, default_record, default_wait,
                                                   default_query};

TEST(a_blocking_stream_that_captures_locks_the_default_one, .to = ARRAY_SIZE(of_the_default))
{
        CUstreamCaptureStatus status;
        CUstream stream = contract_stream(CU_STREAM_DEFAULT);

        ck_ok(cu.cuMemAlloc(&somewhere, 4096));
        ck_ok(cu.cuStreamIsCapturing(NULL, &status));
        ck_ok(cu.cuStreamBeginCapture(stream, RELAXED));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                cu.cuStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));
        ck_assert_int_eq(status_of(stream), ACTIVE);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, of_the_default[_i]());
        ck_assert_int_eq(status_of(stream), LOST);
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
        ck_assert_int_eq(status_of(NULL), NONE);
        ck_ok(cu.cuStreamSynchronize(NULL));
}

TEST(the_default_stream_joins_no_capture)
{
        CUstream stream = stream_capturing(RELAXED);

        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, order(stream, NULL));
        check_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
        ck_assert_int_eq(status_of(NULL), NONE);
}

static CUcontext context;
static CUstream shared;
static CUstreamCaptureMode others_mode;

static void *other_ends(void *result)
{
        CUgraph graph = (CUgraph)result;

        ck_ok(cu.cuCtxSetCurrent(context));
        work(shared);
        *(CUresult *)result = cu.cuStreamEndCapture(shared, &graph);
        ck_assert(!graph == (*(CUresult *)result != CUDA_SUCCESS));
        return NULL;
}

static void *other_allocates(void *result)
{
        CUdeviceptr address;

        ck_ok(cu.cuCtxSetCurrent(context));
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&others_mode));
        *(CUresult *)result = cu.cuMemAlloc(&address, 4096);
        return NULL;
}

static CUresult by_another_thread(void *(*function)(void *))
{
        CUresult result = CUDA_ERROR_UNKNOWN;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, function, &result), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        return result;
}

TEST(another_thread_may_work_but_end_relaxed_ones_only)
{
        const CUstreamCaptureMode modes[] = {GLOBAL, LOCAL, RELAXED};

        context = contract_context();
        for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
                shared = stream_capturing(modes[i]);
                ck_cuda(modes[i] == RELAXED ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                        by_another_thread(other_ends));
                ck_assert_int_eq(status_of(shared), NONE);
                ck_cuda(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(shared, NULL));
        }
}

/* Of this thread's captures a call of another spoils those only that forbid it. */
TEST(another_thread_is_bound_by_global_captures)
{
        const CUstreamCaptureMode modes[] = {GLOBAL, LOCAL, RELAXED};

        context = contract_context();
        for (int i = 0; i < 9; i++) {
                int refused = modes[i / 3] == GLOBAL && modes[i % 3] == GLOBAL;
                CUstream local = stream_capturing(LOCAL);

                shared = stream_capturing(modes[i / 3]);
                others_mode = modes[i % 3];
                ck_cuda(refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
                        by_another_thread(other_allocates));
                check_end(refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, shared);
                check_end(CUDA_SUCCESS, local);
        }
}

CONTRACT_MAIN("captures")
