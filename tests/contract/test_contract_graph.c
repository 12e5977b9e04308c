/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: what they do when they are launched. */
#include <string.h>

#include "tests/contract/contract.h"

#define INVALID   CUDA_ERROR_INVALID_VALUE
#define NOT_READY CUDA_ERROR_NOT_READY
#define N_BYTES   ((size_t)1 << 16)

static CUstream stream, other;
static CUdeviceptr memory, more;
static unsigned char *bytes;

static void world_new(void)
{
        void *pinned;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        other = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuMemAlloc(&memory, N_BYTES));
        ck_ok(cu.cuMemAlloc(&more, N_BYTES));
        ck_ok(cu.cuMemHostAlloc(&pinned, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        bytes = pinned;
        memset(bytes, 0, N_BYTES);
        ck_ok(cu.cuMemsetD8(memory, 0, N_BYTES));
        ck_ok(cu.cuMemsetD8(more, 0, N_BYTES));
        ck_ok(cu.cuCtxSynchronize());
}

static void begin(void)
{
        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraph end(void)
{
        CUgraph graph;

        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        return graph;
}

static CUgraphExec executable_of(CUgraph graph)
{
        CUgraphExec executable;

        ck_ok(cu.cuGraphInstantiate(&executable, graph, 0));
        return executable;
}

/* Ends the capture; the graph itself is not needed any more. */
static CUgraphExec executable_end(void)
{
        CUgraph graph = end();
        CUgraphExec executable = executable_of(graph);

        ck_ok(cu.cuGraphDestroy(graph));
        return executable;
}

static void order(CUstream before, CUstream after)
{
        CUevent event = contract_event(CU_EVENT_DISABLE_TIMING);

        ck_ok(cu.cuEventRecord(event, before));
        ck_ok(cu.cuStreamWaitEvent(after, event, 0));
        ck_ok(cu.cuEventDestroy(event));
}

TEST(captured_work_runs_when_it_is_launched_and_each_time)
{
        CUgraphExec executable;

        world_new();
        begin();
        ck_ok(cu.cuMemcpyHtoDAsync(memory, bytes, 1, stream));
        ck_ok(cu.cuMemcpyDtoDAsync(more, memory, 1, stream));
        ck_ok(cu.cuMemsetD8Async(memory, 0x31, N_BYTES, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes + 1, more, 1, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes + 2, memory + 7, 1, stream));
        executable = executable_end();
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[2], 0);
        ck_assert_uint_eq(contract_read(memory), 0);
        for (unsigned i = 1; i <= 3; i++) {
                bytes[0] = (unsigned char)i;
                ck_ok(cu.cuGraphLaunch(executable, i % 2 ? stream : other));
                ck_ok(cu.cuStreamSynchronize(i % 2 ? stream : other));
                ck_assert_uint_eq(bytes[1], i);
                ck_assert_uint_eq(bytes[2], 0x31);
        }
        ck_ok(cu.cuGraphExecDestroy(executable));
}

TEST(pageable_memory_is_read_by_the_launch)
{
        unsigned char source = 1, result = 0;
        CUgraphExec executable;

        world_new();
        begin();
        ck_ok(cu.cuMemcpyHtoDAsync(memory, &source, 1, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(&result, memory, 1, stream));
        executable = executable_end();
        source = 2;
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(result, 2);
}

TEST(a_launch_is_in_its_streams_order)
{
        struct contract_gate gate;
        CUgraphExec executable;

        world_new();
        begin();
        ck_ok(cu.cuMemcpyDtoDAsync(more, memory, 1, stream));
        executable = executable_end();
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(memory, 0x51, N_BYTES, stream));
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, more, 1, stream));
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        ck_assert_uint_eq(bytes[0], 0);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[0], 0x51);
}

TEST(launches_of_one_executable_do_not_overlap)
{
        struct contract_gate gate;
        CUgraphExec executable;

        world_new();
        begin();
        ck_ok(cu.cuMemsetD8Async(memory, 1, 1, stream));
        executable = executable_end();
        contract_hold(stream, &gate);
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuGraphLaunch(executable, other));
        ck_cuda(NOT_READY, cu.cuStreamQuery(other));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(other));
}

TEST(forks_and_joins_order_the_nodes)
{
        CUgraphExec executable;

        world_new();
        begin();
        ck_ok(cu.cuMemsetD8Async(memory, 0x11, N_BYTES, stream));
        order(stream, other);
        ck_ok(cu.cuMemcpyDtoDAsync(more, memory, 1, other));
        ck_ok(cu.cuMemsetD8Async(more + 1, 0x12, 1, other));
        order(other, stream);
        ck_ok(cu.cuMemsetD8Async(memory, 0x13, N_BYTES, stream));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, more, 2, stream));
        executable = executable_end();
        /* The other stream is its own again. */
        ck_ok(cu.cuMemsetD8Async(more, 0, 2, other));
        ck_ok(cu.cuStreamSynchronize(other));
        ck_ok(cu.cuGraphLaunch(executable, other));
        ck_ok(cu.cuStreamSynchronize(other));
        ck_assert_uint_eq(bytes[0], 0x11);
        ck_assert_uint_eq(bytes[1], 0x12);
        ck_assert_uint_eq(contract_read(memory), 0x13);
}

TEST(a_graph_waits_for_values_and_writes_them)
{
        volatile uint64_t *words;
        CUgraphExec executable;

        world_new();
        words = (volatile uint64_t *)(void *)bytes;
        begin();
        ck_ok(cu.cuStreamWaitValue64(stream, (CUdeviceptr)(uintptr_t)&words[0], 5,
                                     CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuStreamWriteValue64(stream, (CUdeviceptr)(uintptr_t)&words[1], 6, 0));
        executable = executable_end();
        ck_assert_uint_eq(words[1], 0);
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_cuda(NOT_READY, cu.cuStreamQuery(stream));
        ck_assert_uint_eq(words[1], 0);
        words[0] = 5;
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(words[1], 6);
}

static void count_up(void *counter)
{
        ++*(int *)counter;
}

TEST(host_functions_are_captured)
{
        CUgraphExec executable;
        int counter = 0;

        world_new();
        begin();
        ck_ok(cu.cuLaunchHostFunc(stream, count_up, &counter));
        executable = executable_end();
        ck_assert_int_eq(counter, 0);
        for (int i = 0; i < 3; i++)
                ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_int_eq(counter, 3);
}

TEST(a_launch_completes_without_its_graph_and_executable)
{
        struct contract_gate gate;
        CUgraphExec executable;
        CUgraph graph, clone;

        world_new();
        begin();
        ck_ok(cu.cuMemsetD8Async(memory, 0x61, N_BYTES, stream));
        graph = end();
        ck_ok(cu.cuGraphClone(&clone, graph));
        executable = executable_of(clone);
        contract_hold(stream, &gate);
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuGraphDestroy(graph));
        ck_ok(cu.cuGraphDestroy(clone));
        ck_ok(cu.cuGraphExecDestroy(executable));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(memory), 0x61);
}

/* Only what there is: the rest of the capture is not in it. */
TEST(a_graph_may_be_used_while_it_is_captured)
{
        CUstreamCaptureStatus status;
        const CUgraphNode *nodes = NULL;
        const CUgraphEdgeData *edges = NULL;
        CUgraphExec executable;
        CUgraph graph;
        size_t n = 0;

        world_new();
        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        ck_ok(cu.cuMemsetD8Async(memory, 0x21, N_BYTES, stream));
        ck_ok(cu.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &edges, &n));
        ck_assert_uint_eq(n, 1);
        ck_assert_ptr_nonnull(nodes);
        ck_assert_ptr_nonnull(edges);
        executable = executable_of(graph);
        ck_ok(cu.cuMemsetD8Async(more, 0x22, N_BYTES, stream));
        ck_ok(cu.cuGraphDestroy(end()));
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(memory), 0x21);
        ck_assert_uint_eq(contract_read(more), 0);
}

TEST(an_empty_graph_does_nothing)
{
        CUgraphExec executable;

        world_new();
        begin();
        executable = executable_end();
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_ok(cu.cuGraphExecDestroy(executable));
        ck_cuda(INVALID, cu.cuGraphDestroy(NULL));
}

CONTRACT_MAIN("graphs")
