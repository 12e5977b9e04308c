/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/submit.h"

#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/capture.h"

/* Work of the default stream waits for all earlier work of blocking streams, and theirs for all
 * earlier work of the default stream. */
static CUresult default_stream_order(struct stream *stream, struct operation *operation)
{
        struct context *context = stream->context;
        struct stream *other;
        CUresult r = CUDA_SUCCESS;

        if (!stream_is_blocking(stream))
                return CUDA_SUCCESS;
        if (stream->kind != STREAM_LEGACY)
                return context->legacy && stream_is_busy(context->legacy)
                               ? operation_add_after(operation, stream_end(context->legacy))
                               : CUDA_SUCCESS;
        TAILQ_FOREACH (other, &context->streams, link) {
                if (other != stream && stream_is_blocking(other) && stream_is_busy(other))
                        r = operation_add_after(operation, stream_end(other));
                if (r != CUDA_SUCCESS)
                        return r;
        }
        return CUDA_SUCCESS;
}

CUresult stream_submit_locked(struct stream *stream, struct operation *take_operation,
                              struct moment *ret_moment)
{
        CUresult r = CUDA_SUCCESS;

        capture_check_changing(stream);
        if (stream->place.capture) {
                r = capture_add(stream, take_operation);
                if (r == CUDA_SUCCESS && ret_moment)
                        *ret_moment = (struct moment){0};
                return r;
        }
        if (stream->context->state != CONTEXT_ACTIVE)
                r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (r == CUDA_SUCCESS && stream->kind == STREAM_LEGACY)
                r = capture_spoil_implicit(stream->context);
        if (r == CUDA_SUCCESS)
                r = default_stream_order(stream, take_operation);
        if (r == CUDA_SUCCESS)
                r = stream_queue(stream, take_operation);
        if (r == CUDA_SUCCESS && ret_moment)
                *ret_moment = stream_end(stream);
        return r;
}

CUresult stream_submit(struct stream *stream, struct operation *take_operation,
                       struct moment *ret_moment)
{
        CUresult r;

        emulator_lock();
        r = stream_submit_locked(stream, take_operation, ret_moment);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                operation_free(take_operation);
        return r;
}

static CUresult marker_run(struct operation *operation, struct context *context)
{
        (void)operation;
        (void)context;
        return CUDA_SUCCESS;
}

static void marker_free(struct operation *operation)
{
        free(operation);
}

static const struct operation_type marker_type = {
        .run = marker_run, .free = marker_free, .outlives = true};

CUresult stream_submit_marker(struct stream *stream, const struct moment *after, unsigned n_after,
                              struct moment *ret_moment)
{
        struct operation *marker = calloc(1, sizeof(*marker));

        if (!marker)
                return CUDA_ERROR_OUT_OF_MEMORY;
        marker->type = &marker_type;
        for (unsigned i = 0; i < n_after; i++) {
                CUresult r = operation_add_after(marker, moment_copy(&after[i]));

                if (r != CUDA_SUCCESS) {
                        operation_free(marker);
                        return r;
                }
        }
        return stream_submit(stream, marker, ret_moment);
}
