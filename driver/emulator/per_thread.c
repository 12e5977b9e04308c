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

EMULATOR_API CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
        return waited(cuMemcpyAsync(to, from, n_bytes, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t n_bytes)
{
        return waited(cuMemcpyHtoDAsync_v2(to, from, n_bytes, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t n_bytes)
{
        return waited(cuMemcpyDtoHAsync_v2(to, from, n_bytes, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
        return waited(cuMemcpyDtoDAsync_v2(to, from, n_bytes, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value,
                                                 size_t n_bytes)
{
        return waited(cuMemsetD8Async(to, value, n_bytes, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value,
                                                  size_t n_words)
{
        return waited(cuMemsetD32Async(to, value, n_words, CU_STREAM_PER_THREAD));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                                                 CUstream stream)
{
        return cuMemcpyAsync(to, from, n_bytes, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from,
                                                        size_t n_bytes, CUstream stream)
{
        return cuMemcpyHtoDAsync_v2(to, from, n_bytes, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t n_bytes,
                                                        CUstream stream)
{
        return cuMemcpyDtoHAsync_v2(to, from, n_bytes, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from,
                                                        size_t n_bytes, CUstream stream)
{
        return cuMemcpyDtoDAsync_v2(to, from, n_bytes, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value,
                                                   size_t n_bytes, CUstream stream)
{
        return cuMemsetD8Async(to, value, n_bytes, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value,
                                                    size_t n_words, CUstream stream)
{
        return cuMemsetD32Async(to, value, n_words, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuEventRecord_ptsz(CUevent event, CUstream stream)
{
        return cuEventRecord(event, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream)
{
        return cuGraphLaunch(executable, own(stream));
}

EMULATOR_API CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function,
                                                    void *argument)
{
        return cuLaunchHostFunc(own(stream), function, argument);
}

EMULATOR_API CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream stream,
                                                           CUstreamCaptureMode mode)
{
        return cuStreamBeginCapture_v2(own(stream), mode);
}

EMULATOR_API CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret_graph)
{
        return cuStreamEndCapture(own(stream), ret_graph);
}

EMULATOR_API CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream stream,
                                                       CUstreamCaptureStatus *ret_status)
{
        return cuStreamIsCapturing(own(stream), ret_status);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream stream,
                                                          CUstreamCaptureStatus *ret_status,
                                                          cuuint64_t *ret_id)
{
        return cuStreamGetCaptureInfo(own(stream), ret_status, ret_id);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream stream,
                                                             CUstreamCaptureStatus *ret_status,
                                                             cuuint64_t *ret_id, CUgraph *ret_graph,
                                                             const CUgraphNode **ret_dependencies,
                                                             size_t *ret_n_dependencies)
{
        return cuStreamGetCaptureInfo_v2(own(stream), ret_status, ret_id, ret_graph,
                                         ret_dependencies, ret_n_dependencies);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream stream,
                                                             CUstreamCaptureStatus *ret_status,
                                                             cuuint64_t *ret_id, CUgraph *ret_graph,
                                                             const CUgraphNode **ret_dependencies,
                                                             const CUgraphEdgeData **ret_edges,
                                                             size_t *ret_n_dependencies)
{
        return cuStreamGetCaptureInfo_v3(own(stream), ret_status, ret_id, ret_graph,
                                         ret_dependencies, ret_edges, ret_n_dependencies);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream stream, CUcontext *ret_context)
{
        return cuStreamGetCtx(own(stream), ret_context);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *ret_context,
                                                     CUgreenCtx *ret_green)
{
        return cuStreamGetCtx_v2(own(stream), ret_context, ret_green);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream stream, CUdevice *ret_device)
{
        return cuStreamGetDevice(own(stream), ret_device);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream stream, unsigned int *ret_flags)
{
        return cuStreamGetFlags(own(stream), ret_flags);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetId_ptsz(CUstream stream, unsigned long long *ret_id)
{
        return cuStreamGetId(own(stream), ret_id);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream stream, int *ret_priority)
{
        return cuStreamGetPriority(own(stream), ret_priority);
}

EMULATOR_API CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream)
{
        return cuStreamQuery(own(stream));
}

EMULATOR_API CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream)
{
        return cuStreamSynchronize(own(stream));
}

EMULATOR_API CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream stream, CUevent event,
                                                     unsigned int flags)
{
        return cuStreamWaitEvent(own(stream), event, flags);
}

EMULATOR_API CUresult CUDAAPI cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address,
                                                          cuuint64_t value, unsigned int flags)
{
        return cuStreamWaitValue64_v2(own(stream), address, value, flags);
}

EMULATOR_API CUresult CUDAAPI cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address,
                                                           cuuint64_t value, unsigned int flags)
{
        return cuStreamWriteValue64_v2(own(stream), address, value, flags);
}
