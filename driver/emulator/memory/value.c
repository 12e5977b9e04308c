/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a word in memory, and writing one, in the order of a stream: how streams of different
 * processes are ordered. */
#include <cuda.h>
#include <stdlib.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/span.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/submit.h"

#define POLL_US 20

enum value_kind { VALUE_WAIT, VALUE_WRITE };

struct value {
        struct operation operation;
        enum value_kind kind;
        uint64_t address;
        uint64_t number;
        unsigned flags;
};

static bool is_satisfied(uint64_t word, uint64_t number, unsigned flags)
{
        switch (flags) {
        case CU_STREAM_WAIT_VALUE_EQ:
                return word == number;
        case CU_STREAM_WAIT_VALUE_AND:
                return word & number;
        case CU_STREAM_WAIT_VALUE_NOR:
                return ~(word | number);
        default:
                return (int64_t)(word - number) >= 0;
        }
}

static CUresult value_poll(const struct value *value, const struct context *context,
                           const uint64_t *word)
{
        while (!is_satisfied(__atomic_load_n(word, __ATOMIC_ACQUIRE), value->number,
                             value->flags)) {
                /* The context is spoilt: nothing of it will come about any more. */
                if (context_failure(context) != CUDA_SUCCESS)
                        break;
                clock_sleep_us(POLL_US);
        }
        return CUDA_SUCCESS;
}

static CUresult value_run(struct operation *operation, struct context *context)
{
        const struct value *value = (struct value *)operation;
        enum span_use use = value->kind == VALUE_WRITE ? SPAN_WRITE : SPAN_READ;
        struct span span;
        uint64_t *word;
        CUresult r = span_acquire(value->address, sizeof(*word), context->device, use, &span);

        if (r != CUDA_SUCCESS)
                return r;
        word = (uint64_t *)(void *)span.bytes;
        if (span.n_bytes < sizeof(*word))
                r = CUDA_ERROR_ILLEGAL_ADDRESS;
        else if (value->kind == VALUE_WRITE)
                __atomic_store_n(word, value->number, __ATOMIC_RELEASE);
        else
                r = value_poll(value, context, word);
        span_release(&span);
        return r;
}

static void value_free(struct operation *operation)
{
        free(operation);
}

static bool value_is_held(const struct operation *operation, const struct context *context)
{
        const struct value *value = (const struct value *)operation;
        bool held = false;
        struct span span;

        if (value->kind == VALUE_WRITE ||
            span_acquire(value->address, sizeof(uint64_t), context->device, SPAN_READ, &span) !=
                    CUDA_SUCCESS)
                return false;
        if (span.n_bytes >= sizeof(uint64_t))
                held = !is_satisfied(
                        __atomic_load_n((uint64_t *)(void *)span.bytes, __ATOMIC_ACQUIRE),
                        value->number, value->flags);
        span_release(&span);
        return held;
}

static const struct operation_type value_type = {
        .run = value_run, .free = value_free, .is_held = value_is_held, .outlives = true};

static CUresult value_submit(const char *call, CUstream handle, const struct value *like)
{
        struct stream *stream;
        struct value *value;
        CUresult r = emulator_enter(call);

        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        value = malloc(sizeof(*value));
        if (value) {
                *value = *like;
                value->operation.type = &value_type;
                r = stream_submit(stream, &value->operation, NULL);
        } else {
                r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        (void)stream_unref(stream);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address,
                                                  cuuint64_t number, unsigned int flags)
{
        const struct value like = {
                .kind = VALUE_WAIT, .address = address, .number = number, .flags = flags};

        if (!address || address % sizeof(uint64_t) || flags > CU_STREAM_WAIT_VALUE_NOR)
                return CUDA_ERROR_INVALID_VALUE;
        return value_submit(__func__, stream, &like);
}

EMULATOR_API CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
                                                   cuuint64_t number, unsigned int flags)
{
        const struct value like = {.kind = VALUE_WRITE, .address = address, .number = number};

        if (!address || address % sizeof(uint64_t) || flags)
                return CUDA_ERROR_INVALID_VALUE;
        return value_submit(__func__, stream, &like);
}
