/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the emulated driver, beyond what every driver promises: what it does where the real one may
 * do either, so that what was left to chance comes out. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define INVALID CUDA_ERROR_INVALID_VALUE
#define N_BYTES ((size_t)4096)

static CUstream stream, other;
static CUdeviceptr memory;
static volatile uint64_t *words;

static void world_new(void)
{
        void *pinned;

        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        other = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuMemAlloc(&memory, N_BYTES));
        ck_ok(cu.cuMemHostAlloc(&pinned, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        memset(pinned, 0, N_BYTES);
        words = pinned;
}

static CUdeviceptr word_at(unsigned i)
{
        return (CUdeviceptr)(uintptr_t)&words[i];
}

static void order(CUstream before, CUstream after)
{
        CUevent event;

        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuEventRecord(event, before));
        ck_ok(cu.cuStreamWaitEvent(after, event, 0));
        ck_ok(cu.cuEventDestroy(event));
}

/* Two branches: the stream's own, and the other's. */
static void begin_fork(void)
{
        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        order(stream, other);
}

static CUgraphExec join_end(void)
{
        CUgraphExec executable;
        CUgraph graph;

        order(other, stream);
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        ck_ok(cu.cuGraphInstantiate(&executable, graph, 0));
        ck_ok(cu.cuGraphDestroy(graph));
        return executable;
}

/* Captured first, then copied, but nothing orders them: the copy is what finds no value yet. */
TEST(what_no_edge_orders_does_not_run_as_it_was_captured)
{
        (void)contract_context();
        world_new();
        begin_fork();
        ck_ok(cu.cuStreamWriteValue64(stream, word_at(0), 7, 0));
        ck_ok(cu.cuMemcpyDtoDAsync(word_at(1), word_at(0), sizeof(*words), other));
        ck_ok(cu.cuGraphLaunch(join_end(), stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(words[0], 7);
        ck_assert_uint_eq(words[1], 0);
}

/* Whichever was captured first: a branch that waits does not keep the other from running. */
TEST(branches_run_beside_one_that_waits, .to = 2)
{
        CUstream waiting, writing;

        (void)contract_context();
        world_new();
        waiting = _i ? stream : other;
        writing = _i ? other : stream;
        begin_fork();
        ck_ok(cu.cuStreamWaitValue64(waiting, word_at(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuStreamWriteValue64(waiting, word_at(1), 2, 0));
        ck_ok(cu.cuStreamWriteValue64(writing, word_at(0), 1, 0));
        ck_ok(cu.cuStreamWaitValue64(writing, word_at(1), 2, CU_STREAM_WAIT_VALUE_EQ));
        ck_ok(cu.cuGraphLaunch(join_end(), stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(words[1], 2);
}

TEST(a_launch_that_finds_memory_gone_spoils_its_context)
{
        CUgraphExec executable;

        (void)contract_context();
        world_new();
        begin_fork();
        ck_ok(cu.cuMemsetD8Async(memory, 1, N_BYTES, other));
        executable = join_end();
        ck_ok(cu.cuMemFree(memory));
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuGraphLaunch(executable, stream));
}

static void count_up(void *counter)
{
        ++*(int *)counter;
}

TEST(a_context_takes_its_captures_with_it)
{
        CUstreamCaptureStatus status;
        CUuserObject object;
        CUcontext context;
        int n_destroyed = 0;
        CUgraph graph;

        contract_init();
        ck_ok(cu.cuCtxCreate(&context, NULL, 0, 0));
        world_new();
        begin_fork();
        ck_ok(cu.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
        ck_ok(cu.cuUserObjectCreate(&object, &n_destroyed, count_up, 1,
                                    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        ck_ok(cu.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
        ck_ok(cu.cuCtxDestroy(context));
        ck_assert_int_eq(n_destroyed, 1);
        /* Nothing forbids anything any more. */
        (void)contract_context();
        ck_ok(cu.cuMemAlloc(&memory, N_BYTES));
}

static void *capture_and_end(void *context)
{
        ck_ok(cu.cuCtxSetCurrent(context));
        ck_ok(cu.cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
        return NULL;
}

TEST(a_thread_takes_the_capture_of_its_own_stream_with_it)
{
        CUcontext context = contract_context();
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, capture_and_end, context), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_ok(cu.cuMemAlloc(&memory, N_BYTES));
}

TEST(stale_handles_are_found_out)
{
        CUstreamCaptureStatus status;
        CUgraphExec executable;
        CUuserObject object;
        CUgraph graph;
        int counter = 0;

        (void)contract_context();
        world_new();
        begin_fork();
        ck_ok(cu.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
        ck_cuda(INVALID, cu.cuGraphDestroy(graph));
        executable = join_end();
        ck_cuda(INVALID, cu.cuGraphDestroy(graph));
        ck_cuda(INVALID, cu.cuGraphInstantiate(&executable, graph, 0));
        ck_ok(cu.cuGraphExecDestroy(executable));
        ck_cuda(INVALID, cu.cuGraphExecDestroy(executable));
        ck_cuda(INVALID, cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuUserObjectCreate(&object, &counter, count_up, 1,
                                    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        ck_ok(cu.cuUserObjectRelease(object, 1));
        ck_cuda(INVALID, cu.cuUserObjectRelease(object, 1));
        ck_cuda(INVALID, cu.cuUserObjectRetain(object, 1));
        ck_assert_int_eq(counter, 1);
}

CONTRACT_MAIN("graphs")
