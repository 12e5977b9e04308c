/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of one context, for tests of what is recorded in streams. Its context, and what is the same of every event,
 * are here; the test that includes it says what its streams and events do. */
#pragma once

#include <string.h>

#include "driver/cuda.h"

static struct {
        CUcontext current;
        unsigned long long context_id;
        bool is_silent; /* it does not say the id */
        bool has_ended;
        unsigned n_made, n_freed; /* events */
} context;

static CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus *ret_status);
static CUresult CUDAAPI create(CUevent *ret_event, unsigned flags);
static CUresult CUDAAPI record(CUevent event, CUstream stream);
static CUresult CUDAAPI query(CUevent event);

static CUresult CUDAAPI get_current(CUcontext *ret_context)
{
        *ret_context = context.current;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI set_current(CUcontext current)
{
        context.current = current;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_version(CUcontext of, unsigned *ret_version)
{
        (void)of;
        *ret_version = 1;
        return context.has_ended ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static CUresult CUDAAPI get_id(CUcontext of, unsigned long long *ret_id)
{
        (void)of;
        *ret_id = context.context_id;
        return context.is_silent ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy(CUevent event)
{
        ck_assert_ptr_nonnull(event);
        context.n_freed++;
        return CUDA_SUCCESS;
}

static CUresult CUDAAPI text_of(CUresult result, const char **ret_text)
{
        (void)result;
        *ret_text = "as the test says";
        return CUDA_SUCCESS;
}

static const struct cuda cuda = {
        .cuCtxGetCurrent = get_current,
        .cuCtxSetCurrent = set_current,
        .cuCtxGetApiVersion = get_version,
        .cuCtxGetId = get_id,
        .cuStreamIsCapturing = is_capturing,
        .cuEventCreate = create,
        .cuEventRecord = record,
        .cuEventQuery = query,
        .cuEventDestroy = destroy,
        .cuGetErrorName = text_of,
        .cuGetErrorString = text_of,
};
