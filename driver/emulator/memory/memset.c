/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory, in the order of a stream. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/span.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/submit.h"

struct fill {
        struct operation operation;
        uint64_t to;
        uint64_t n_bytes;
        unsigned char pattern[4]; /* the value, or a byte four times; repeats at every multiple */
};

static void fill_piece(const struct fill *fill, const struct span *span)
{
        for (uint64_t i = 0; i < span->n_bytes; i += sizeof(fill->pattern)) {
                uint64_t n_left = span->n_bytes - i;

                memcpy(span->bytes + i, fill->pattern,
                       n_left < sizeof(fill->pattern) ? n_left : sizeof(fill->pattern));
        }
}

static CUresult fill_run(struct operation *operation, struct context *context)
{
        const struct fill *fill = (struct fill *)operation;
        uint64_t n_done = 0;

        while (n_done < fill->n_bytes) {
                struct span span;
                CUresult r = span_acquire(fill->to + n_done, fill->n_bytes - n_done,
                                          context->device, SPAN_WRITE, &span);

                if (r != CUDA_SUCCESS)
                        return r;
                fill_piece(fill, &span);
                n_done += span.n_bytes;
                span_release(&span);
        }
        return CUDA_SUCCESS;
}

static void fill_free(struct operation *operation)
{
        free(operation);
}

static const struct operation_type fill_type = {
        .run = fill_run, .free = fill_free, .outlives = true};

static CUresult fill_submit(struct stream *stream, CUdeviceptr to, const unsigned char pattern[4],
                            uint64_t n_bytes, struct moment *ret_end)
{
        struct fill *fill = calloc(1, sizeof(*fill));

        if (!fill)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *fill = (struct fill){.operation.type = &fill_type, .to = to, .n_bytes = n_bytes};
        memcpy(fill->pattern, pattern, sizeof(fill->pattern));
        return stream_submit(stream, &fill->operation, ret_end);
}

enum waiting { FILL_ASYNC, FILL_WAIT };

static CUresult fill(const char *call, CUdeviceptr to, const unsigned char pattern[4],
                     size_t n_bytes, CUstream handle, enum waiting waiting)
{
        struct moment end;
        struct stream *stream;
        CUresult r = emulator_enter(call);

        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        /* A graph's addresses are checked when it runs. */
        if (!stream_is_captured(stream))
                r = span_check(to, n_bytes, stream->context->device, SPAN_WRITE);
        if (n_bytes && r == CUDA_SUCCESS)
                r = fill_submit(stream, to, pattern, n_bytes, &end);
        if (n_bytes && r == CUDA_SUCCESS) {
                if (waiting == FILL_WAIT) {
                        moment_wait(&end);
                        r = context_failure(stream->context);
                }
                moment_clear(&end);
        }
        (void)stream_unref(stream);
        return r;
}

static CUresult fill_words(const char *call, CUdeviceptr to, unsigned value, size_t n_words,
                           CUstream handle, enum waiting waiting)
{
        unsigned char pattern[4];
        uint64_t n_bytes;

        if (to % sizeof(pattern) || __builtin_mul_overflow(n_words, sizeof(pattern), &n_bytes))
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(pattern, &value, sizeof(pattern));
        return fill(call, to, pattern, n_bytes, handle, waiting);
}

static CUresult fill_bytes(const char *call, CUdeviceptr to, unsigned char value, size_t n_bytes,
                           CUstream handle, enum waiting waiting)
{
        const unsigned char pattern[4] = {value, value, value, value};

        return fill(call, to, pattern, n_bytes, handle, waiting);
}

EMULATOR_API CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n_bytes)
{
        return fill_bytes(__func__, to, value, n_bytes, CU_STREAM_LEGACY, FILL_WAIT);
}

EMULATOR_API CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n_bytes,
                                              CUstream stream)
{
        return fill_bytes(__func__, to, value, n_bytes, stream, FILL_ASYNC);
}

EMULATOR_API CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned int value, size_t n_words)
{
        return fill_words(__func__, to, value, n_words, CU_STREAM_LEGACY, FILL_WAIT);
}

EMULATOR_API CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n_words,
                                               CUstream stream)
{
        return fill_words(__func__, to, value, n_words, stream, FILL_ASYNC);
}
