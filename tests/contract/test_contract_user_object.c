/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: when the last reference goes, once, the destructor runs; on which thread depends on
 * whether work on a stream held it up. */
#include <pthread.h>

#include "tests/contract/contract.h"

#define INVALID CUDA_ERROR_INVALID_VALUE
#define SYNC    CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
#define MOVE    CU_GRAPH_USER_OBJECT_MOVE

/* What a destructor leaves behind. */
struct grave {
        int n_destroyed; /* atomic */
        CUresult of_a_call;
        pthread_t thread;
};

static struct grave grave;
static CUstream stream;
static CUdeviceptr memory;

static void destroy(void *argument)
{
        struct grave *mine = argument;
        CUdeviceptr address;

        mine->of_a_call = cu.cuMemAlloc(&address, 4096);
        mine->thread = pthread_self();
        (void)__atomic_add_fetch(&mine->n_destroyed, 1, __ATOMIC_RELEASE);
}

static int n_destroyed(void)
{
        return __atomic_load_n(&grave.n_destroyed, __ATOMIC_ACQUIRE);
}

static CUuserObject object_new(unsigned n_refs)
{
        CUuserObject object;

        ck_ok(cu.cuUserObjectCreate(&object, &grave, destroy, n_refs, SYNC));
        return object;
}

static void world_new(void)
{
        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuMemAlloc(&memory, 4096));
}

/* A capture whose graph has an object; the object, which may still have references elsewhere. */
static CUuserObject begin(CUstreamCaptureMode mode, CUgraph *ret_graph)
{
        CUuserObject object = object_new(1);
        CUstreamCaptureStatus status;

        ck_ok(cu.cuStreamBeginCapture(stream, mode));
        ck_ok(cu.cuMemsetD8Async(memory, 1, 4096, stream));
        ck_ok(cu.cuStreamGetCaptureInfo(stream, &status, NULL, ret_graph, NULL, NULL, NULL));
        ck_ok(cu.cuGraphRetainUserObject(*ret_graph, object, 1, MOVE));
        return object;
}

static CUgraph graph_with_object(CUstreamCaptureMode mode)
{
        CUgraph graph;

        (void)begin(mode, &graph);
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        ck_assert_int_eq(n_destroyed(), 0);
        return graph;
}

static void destroyed_here(void)
{
        ck_assert_int_eq(n_destroyed(), 1);
        ck_assert(pthread_equal(grave.thread, pthread_self()));
        ck_cuda(CUDA_ERROR_NOT_PERMITTED, grave.of_a_call);
}

static void destroyed_elsewhere(void)
{
        int n_looks = 0;

        while (!n_destroyed())
                contract_pause(&n_looks);
        ck_assert_int_eq(n_destroyed(), 1);
        ck_assert(!pthread_equal(grave.thread, pthread_self()));
        ck_cuda(CUDA_ERROR_NOT_PERMITTED, grave.of_a_call);
}

TEST(an_object_counts_its_references)
{
        CUuserObject object;

        contract_init();
        ck_cuda(INVALID, cu.cuUserObjectCreate(&object, &grave, destroy, 0, SYNC));
        ck_cuda(INVALID, cu.cuUserObjectCreate(&object, &grave, destroy, 1, 0));
        object = object_new(2);
        ck_cuda(INVALID, cu.cuUserObjectRelease(object, 0));
        ck_ok(cu.cuUserObjectRetain(object, 3));
        ck_ok(cu.cuUserObjectRelease(object, 4));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_ok(cu.cuUserObjectRelease(object, 1));
        destroyed_here();
}

TEST(a_graph_keeps_its_objects_in_every_mode, .to = 3)
{
        CUgraph graph;

        world_new();
        graph = graph_with_object((CUstreamCaptureMode)_i);
        ck_ok(cu.cuGraphDestroy(graph));
        destroyed_here();
}

TEST(a_graph_lets_an_object_go)
{
        CUuserObject object;
        CUgraph graph, ended;

        world_new();
        object = begin(CU_STREAM_CAPTURE_MODE_GLOBAL, &graph);
        ck_cuda(INVALID, cu.cuGraphRetainUserObject(graph, object, 0, MOVE));
        ck_cuda(INVALID, cu.cuGraphRetainUserObject(graph, object, 1, 7));
        ck_ok(cu.cuGraphRetainUserObject(graph, object, 2, 0));
        ck_ok(cu.cuGraphReleaseUserObject(graph, object, 2));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_ok(cu.cuGraphReleaseUserObject(graph, object, 1));
        destroyed_here();
        ck_ok(cu.cuStreamEndCapture(stream, &ended));
        ck_ok(cu.cuGraphDestroy(ended));
        ck_assert_int_eq(n_destroyed(), 1);
}

TEST(clones_keep_objects_too)
{
        CUgraph graph, clone;

        world_new();
        graph = graph_with_object(CU_STREAM_CAPTURE_MODE_GLOBAL);
        ck_ok(cu.cuGraphClone(&clone, graph));
        ck_ok(cu.cuGraphDestroy(graph));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_ok(cu.cuGraphDestroy(clone));
        destroyed_here();
}

TEST(executables_keep_objects_too)
{
        CUgraphExec first, second;
        CUgraph graph;

        world_new();
        graph = graph_with_object(CU_STREAM_CAPTURE_MODE_GLOBAL);
        ck_ok(cu.cuGraphInstantiate(&first, graph, 0));
        ck_ok(cu.cuGraphInstantiate(&second, graph, 0));
        ck_ok(cu.cuGraphDestroy(graph));
        ck_ok(cu.cuGraphExecDestroy(second));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_ok(cu.cuGraphExecDestroy(first));
        destroyed_here();
}

TEST(launches_keep_objects_until_they_are_over)
{
        struct contract_gate gate;
        CUgraphExec executable;
        CUgraph graph;

        world_new();
        graph = graph_with_object(CU_STREAM_CAPTURE_MODE_GLOBAL);
        ck_ok(cu.cuGraphInstantiate(&executable, graph, 0));
        contract_hold(stream, &gate);
        for (int i = 0; i < 3; i++)
                ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuGraphDestroy(graph));
        ck_ok(cu.cuGraphExecDestroy(executable));
        contract_await(&gate);
        ck_assert_int_eq(n_destroyed(), 0);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        destroyed_elsewhere();
}

/* Also when the launch was over long before. */
TEST(an_executable_that_was_launched_lets_go_elsewhere)
{
        CUgraphExec executable;
        CUgraph graph;

        world_new();
        graph = graph_with_object(CU_STREAM_CAPTURE_MODE_GLOBAL);
        ck_ok(cu.cuGraphInstantiate(&executable, graph, 0));
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_ok(cu.cuGraphDestroy(graph));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_ok(cu.cuGraphExecDestroy(executable));
        destroyed_elsewhere();
}

TEST(a_lost_capture_lets_go_when_it_is_ended)
{
        CUgraph graph;

        world_new();
        (void)begin(CU_STREAM_CAPTURE_MODE_GLOBAL, &graph);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(stream));
        ck_assert_int_eq(n_destroyed(), 0);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
        destroyed_here();
}

TEST(a_capture_whose_stream_is_destroyed_lets_go)
{
        CUgraph graph;

        world_new();
        (void)begin(CU_STREAM_CAPTURE_MODE_GLOBAL, &graph);
        ck_ok(cu.cuStreamDestroy(stream));
        destroyed_here();
}

CONTRACT_MAIN("user objects")
