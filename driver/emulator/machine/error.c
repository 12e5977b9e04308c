/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of results, as the real driver gives them. Pure; needs no cuInit. */
#include <cuda.h>

#include "driver/emulator/machine/emulator.h"

struct text {
        CUresult result;
        const char *name;
        const char *text;
};

#define TEXT(result, said) ((struct text){result, #result, said})

static const struct text texts[] = {
        TEXT(CUDA_SUCCESS, "no error"),
        TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
        TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
        TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
        TEXT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
        TEXT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
        TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
        TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
        TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
        TEXT(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
        TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
        TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
        TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
        TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
        TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
        TEXT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
        TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
             "part or all of the requested memory range is already mapped"),
        TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
             "pointer does not correspond to a registered memory region"),
        TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
        TEXT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
        TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
             "operation not permitted when stream is capturing"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
             "operation failed due to a previous error during capture"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_MERGE,
             "operation would result in a merge of separate capture sequences"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
             "capture was not ended in the same stream as it began"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
             "dependency created on uncaptured work in another stream"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
             "operation would make the legacy stream depend on a capturing blocking stream"),
        TEXT(CUDA_ERROR_CAPTURED_EVENT,
             "operation not permitted on an event last recorded in a capturing stream"),
        TEXT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
             "attempt to terminate a thread-local capture sequence from another thread"),
        TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const struct text *text_find(CUresult result)
{
        for (unsigned i = 0; i < ARRAY_SIZE(texts); i++)
                if (texts[i].result == result)
                        return &texts[i];
        return NULL;
}

EMULATOR_API CUresult CUDAAPI cuGetErrorName(CUresult result, const char **ret_name)
{
        const struct text *text = text_find(result);

        if (!ret_name)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_name = text ? text->name : NULL;
        return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMULATOR_API CUresult CUDAAPI cuGetErrorString(CUresult result, const char **ret_text)
{
        const struct text *text = text_find(result);

        if (!ret_text)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_text = text ? text->text : NULL;
        return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
