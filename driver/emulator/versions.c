/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of calls that the header hides, older than its own or newer: cuGetProcAddress gives a caller the form of the
 * version that it asks for. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stddef.h>

#include "driver/emulator/machine/emulator.h"

EMULATOR_API CUresult CUDAAPI cuCtxCreate_v2(CUcontext *ret_context, unsigned int flags,
                                             CUdevice device)
{
        return cuCtxCreate_v4(ret_context, NULL, flags, device);
}

EMULATOR_API CUresult CUDAAPI cuCtxCreate_v3(CUcontext *ret_context, CUexecAffinityParam *affinity,
                                             int n_affinity, unsigned int flags, CUdevice device)
{
        CUctxCreateParams parameters = {.execAffinityParams = affinity,
                                        .numExecAffinityParams = n_affinity};

        return cuCtxCreate_v4(ret_context, &parameters, flags, device);
}

/* NULL is the current one. */
static CUresult context_enter(CUcontext context)
{
        return context ? cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

static void context_leave(CUcontext context)
{
        if (context)
                (void)cuCtxPopCurrent_v2(NULL);
}

EMULATOR_API CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *ret_device, CUcontext context)
{
        CUresult r = context_enter(context);

        if (r != CUDA_SUCCESS)
                return r;
        r = cuCtxGetDevice(ret_device);
        context_leave(context);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context)
{
        CUresult r = context_enter(context);

        if (r != CUDA_SUCCESS)
                return r;
        r = cuCtxSynchronize();
        context_leave(context);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent first, CUevent last)
{
        return cuEventElapsedTime_v2(ret_ms, first, last);
}

/* Unlike its successor it fails where it finds nothing. */
EMULATOR_API CUresult CUDAAPI cuGetProcAddress(const char *name, void **ret_function, int version,
                                               cuuint64_t flags)
{
        CUdriverProcAddressQueryResult found;
        void *function;
        CUresult r;

        if (!ret_function)
                return CUDA_ERROR_INVALID_VALUE;
        r = cuGetProcAddress_v2(name, &function, version, flags, &found);
        if (r != CUDA_SUCCESS)
                return r;
        if (found != CU_GET_PROC_ADDRESS_SUCCESS)
                return CUDA_ERROR_NOT_FOUND;
        *ret_function = function;
        return CUDA_SUCCESS;
}

/* No instantiation here has errors to report. */
EMULATOR_API CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *ret_executable, CUgraph graph,
                                                    CUgraphNode *ret_failed, char *ret_log,
                                                    size_t n_bytes)
{
        CUresult r = cuGraphInstantiateWithFlags(ret_executable, graph, 0);

        if (r == CUDA_SUCCESS && ret_failed)
                *ret_failed = NULL;
        if (r == CUDA_SUCCESS && ret_log && n_bytes)
                *ret_log = '\0';
        return r;
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream,
                                                     CUstreamCaptureStatus *ret_status,
                                                     cuuint64_t *ret_id)
{
        return cuStreamGetCaptureInfo_v3(stream, ret_status, ret_id, NULL, NULL, NULL, NULL);
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream,
                                                        CUstreamCaptureStatus *ret_status,
                                                        cuuint64_t *ret_id, CUgraph *ret_graph,
                                                        const CUgraphNode **ret_dependencies,
                                                        size_t *ret_n_dependencies)
{
        return cuStreamGetCaptureInfo_v3(stream, ret_status, ret_id, ret_graph, ret_dependencies,
                                         NULL, ret_n_dependencies);
}

/* No stream here is of a green context. */
EMULATOR_API CUresult CUDAAPI cuStreamGetCtx_v2(CUstream stream, CUcontext *ret_context,
                                                CUgreenCtx *ret_green)
{
        CUresult r = cuStreamGetCtx(stream, ret_context);

        if (r == CUDA_SUCCESS && ret_green)
                *ret_green = NULL;
        return r;
}
