/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/capturer.h"

#include <dlfcn.h>

#include "tests/suite.h"

/* Names pass through <cuda.h>'s macros first. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)
#define FIND(member, call)                                                                      \
        do {                                                                                    \
                capturer->member = (__typeof__(capturer->member))dlsym(library, NAME_OF(call)); \
                ck_assert_ptr_nonnull((void *)capturer->member);                                \
        } while (0)

const CUstreamCaptureMode capture_modes[N_CAPTURE_MODES] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                            CU_STREAM_CAPTURE_MODE_RELAXED};

void capturer_init(struct capturer *capturer, const struct cuda *cuda)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        ck_assert_ptr_nonnull(library);
        *capturer = (struct capturer){.cuda = cuda};
        FIND(begin, cuStreamBeginCapture);
        FIND(end, cuStreamEndCapture);
        FIND(instantiate, cuGraphInstantiate);
        FIND(launch, cuGraphLaunch);
        FIND(destroy, cuGraphDestroy);
        FIND(destroy_executable, cuGraphExecDestroy);
}

void capturer_begin(const struct capturer *capturer, CUstream stream, CUstreamCaptureMode mode)
{
        ck_assert_int_eq(capturer->begin(stream, mode), CUDA_SUCCESS);
}

CUgraph capturer_end(const struct capturer *capturer, CUstream stream)
{
        CUgraph graph = NULL;

        ck_assert_int_eq(capturer->end(stream, &graph), CUDA_SUCCESS);
        ck_assert_ptr_nonnull(graph);
        return graph;
}

void capturer_replay(const struct capturer *capturer, CUgraph graph, CUstream stream)
{
        CUgraphExec executable;

        ck_assert_int_eq(capturer->instantiate(&executable, graph, 0), CUDA_SUCCESS);
        ck_assert_int_eq(capturer->launch(executable, stream), CUDA_SUCCESS);
        ck_assert_int_eq(CUDA_CALL(capturer->cuda, cuStreamSynchronize, stream), 0);
        ck_assert_int_eq(capturer->destroy_executable(executable), CUDA_SUCCESS);
}

void capturer_destroy(const struct capturer *capturer, CUgraph graph)
{
        ck_assert_int_eq(capturer->destroy(graph), CUDA_SUCCESS);
}
