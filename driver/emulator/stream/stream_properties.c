/* SPDX-License-Identifier: Apache-2.0 */
/* The properties with which a stream was made. Its priority is kept and has no effect: each stream has a thread of
 * its own. */
#include <cuda.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/stream.h"

/* As the H200's driver says; the lower number goes first. */
#define LEAST_PRIORITY    0
#define GREATEST_PRIORITY (-5)

int stream_priority(int wanted)
{
        if (wanted > LEAST_PRIORITY)
                return LEAST_PRIORITY;
        return wanted < GREATEST_PRIORITY ? GREATEST_PRIORITY : wanted;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        if (ret_least)
                *ret_least = LEAST_PRIORITY;
        if (ret_greatest)
                *ret_greatest = GREATEST_PRIORITY;
        return CUDA_SUCCESS;
}

/* With a count of the stream, if somewhere to write the answer to was given. */
static CUresult stream_ask(const char *call, CUstream handle, const void *answer,
                           struct stream **ret_stream)
{
        CUresult r = emulator_enter_hot(call);

        if (r == CUDA_SUCCESS && !answer)
                r = CUDA_ERROR_INVALID_VALUE;
        return r == CUDA_SUCCESS ? lookup_usable_stream(handle, ret_stream) : r;
}

/* A call that answers with one value of a stream. */
#define PROPERTY(call, type, value)                                            \
        EMULATOR_API CUresult CUDAAPI call(CUstream handle, type *ret_value)   \
        {                                                                      \
                struct stream *stream;                                         \
                CUresult r = stream_ask(__func__, handle, ret_value, &stream); \
                                                                               \
                if (r != CUDA_SUCCESS)                                         \
                        return r;                                              \
                *ret_value = (type)(value);                                    \
                (void)stream_unref(stream);                                    \
                return CUDA_SUCCESS;                                           \
        }

PROPERTY(cuStreamGetPriority, int, stream->priority)
PROPERTY(cuStreamGetFlags, unsigned int, stream->flags)
PROPERTY(cuStreamGetDevice, CUdevice, stream->context->device)
