/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of calls for programs whose default stream is the calling thread's: like the others, but with that stream
 * as the default. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "driver/emulator/machine/emulator.h"

static CUstream own(CUstream stream)
{
        return stream ? stream : CU_STREAM_PER_THREAD;
}

/* For calls that name no stream and return when their work is done. */
static CUresult waited(CUresult submitted)
{
        return submitted == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : submitted;
}

/* FORM(call, its parameters, the arguments of the call that it makes): the form of a call that names a stream. */
#define FORM(call, parameters, arguments)                    \
        EMULATOR_API CUresult CUDAAPI call##_ptsz parameters \
        {                                                    \
                return call arguments;                       \
        }

/* The form of a call that names none: the call that does the same in a stream comes second. */
#define WAITED(call, in_stream, parameters, arguments)       \
        EMULATOR_API CUresult CUDAAPI call##_ptds parameters \
        {                                                    \
                return waited(in_stream arguments);          \
        }

WAITED(cuMemcpy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n_bytes),
       (to, from, n_bytes, CU_STREAM_PER_THREAD))
WAITED(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n_bytes),
       (to, from, n_bytes, CU_STREAM_PER_THREAD))
WAITED(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n_bytes),
       (to, from, n_bytes, CU_STREAM_PER_THREAD))
WAITED(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n_bytes),
       (to, from, n_bytes, CU_STREAM_PER_THREAD))
WAITED(cuMemsetD8_v2, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t n_bytes),
       (to, value, n_bytes, CU_STREAM_PER_THREAD))
WAITED(cuMemsetD32_v2, cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t n_words),
       (to, value, n_words, CU_STREAM_PER_THREAD))
FORM(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream),
     (to, from, n_bytes, own(stream)))
FORM(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream),
     (to, from, n_bytes, own(stream)))
FORM(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n_bytes, CUstream stream),
     (to, from, n_bytes, own(stream)))
FORM(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream),
     (to, from, n_bytes, own(stream)))
FORM(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t n_bytes, CUstream stream),
     (to, value, n_bytes, own(stream)))
FORM(cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t n_words, CUstream stream),
     (to, value, n_words, own(stream)))
FORM(cuEventRecord, (CUevent event, CUstream stream), (event, own(stream)))
FORM(cuGraphLaunch, (CUgraphExec executable, CUstream stream), (executable, own(stream)))
FORM(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument),
     (own(stream), function, argument))
FORM(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (own(stream), mode))
FORM(cuStreamEndCapture, (CUstream stream, CUgraph *ret_graph), (own(stream), ret_graph))
FORM(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *ret_status),
     (own(stream), ret_status))
FORM(cuStreamGetCaptureInfo,
     (CUstream stream, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id),
     (own(stream), ret_status, ret_id))
FORM(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id, CUgraph *ret_graph,
      const CUgraphNode **ret_dependencies, size_t *ret_n_dependencies),
     (own(stream), ret_status, ret_id, ret_graph, ret_dependencies, ret_n_dependencies))
FORM(cuStreamGetCaptureInfo_v3,
     (CUstream stream, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id, CUgraph *ret_graph,
      const CUgraphNode **ret_dependencies, const CUgraphEdgeData **ret_edges,
      size_t *ret_n_dependencies),
     (own(stream), ret_status, ret_id, ret_graph, ret_dependencies, ret_edges, ret_n_dependencies))
FORM(cuStreamGetCtx, (CUstream stream, CUcontext *ret_context), (own(stream), ret_context))
FORM(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ret_context, CUgreenCtx *ret_green),
     (own(stream), ret_context, ret_green))
FORM(cuStreamGetDevice, (CUstream stream, CUdevice *ret_device), (own(stream), ret_device))
FORM(cuStreamGetFlags, (CUstream stream, unsigned int *ret_flags), (own(stream), ret_flags))
FORM(cuStreamGetId, (CUstream stream, unsigned long long *ret_id), (own(stream), ret_id))
FORM(cuStreamGetPriority, (CUstream stream, int *ret_priority), (own(stream), ret_priority))
FORM(cuStreamQuery, (CUstream stream), (own(stream)))
FORM(cuStreamSynchronize, (CUstream stream), (own(stream)))
FORM(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
     (own(stream), event, flags))
FORM(cuStreamWaitValue64_v2,
     (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     (own(stream), address, value, flags))
FORM(cuStreamWriteValue64_v2,
     (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     (own(stream), address, value, flags))
