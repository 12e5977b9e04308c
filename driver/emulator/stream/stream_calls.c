/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls on streams. */
#include <cuda.h>
#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/event.h"
#include "driver/emulator/stream/identity.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/submit.h"

static CUresult create_locked(unsigned flags, int priority, struct stream **ret_stream)
{
        struct context *context;
        struct stream *stream;
        CUresult r;

        r = context_get(&context);
        if (r == CUDA_SUCCESS)
                r = stream_new(context, STREAM_CREATED, flags, stream_priority(priority), &stream);
        if (r != CUDA_SUCCESS)
                return r;
        if (handle_new(HANDLE_STREAM, stream, &stream->handle)) {
                stream_close(stream);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        identity_put(stream->handle, &(struct identity){.id = stream->id, .context = context});
        *ret_stream = stream;
        return CUDA_SUCCESS;
}

static CUresult stream_create(const char *call, CUstream *ret_handle, unsigned flags, int priority)
{
        struct stream *stream;
        CUresult r = emulator_enter(call);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        r = create_locked(flags, priority, &stream);
        if (r == CUDA_SUCCESS)
                *ret_handle = (CUstream)stream->handle;
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *ret_handle, unsigned int flags,
                                                         int priority)
{
        return stream_create(__func__, ret_handle, flags, priority);
}

EMULATOR_API CUresult CUDAAPI cuStreamCreate(CUstream *ret_handle, unsigned int flags)
{
        return stream_create(__func__, ret_handle, flags, 0);
}

EMULATOR_API CUresult CUDAAPI cuStreamDestroy(CUstream handle)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        stream = handle_find(HANDLE_STREAM, (uintptr_t)handle);
        if (stream) {
                capture_forget(stream, &dead);
                identity_remove(stream->handle);
                handle_free(HANDLE_STREAM, stream->handle);
                stream->handle = 0;
        }
        emulator_unlock();
        if (!stream)
                return CUDA_ERROR_INVALID_HANDLE;
        stream_close(stream);
        user_destroy(&dead);
        return CUDA_SUCCESS;
}

/* For calls that ask after the work of a stream: a capture cannot tell. */
static CUresult capture_check(struct stream *stream)
{
        CUresult r = CUDA_SUCCESS;

        emulator_lock();
        capture_check_changing(stream);
        if (stream->place.capture)
                r = capture_spoil(stream->place.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        else if (stream->kind == STREAM_LEGACY)
                r = capture_spoil_implicit(stream->context);
        emulator_unlock();
        return r == CUDA_SUCCESS ? capture_check_unsafe() : r;
}

EMULATOR_API CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
        struct moment end = {0};
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = lookup_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check(stream);
        /* The end of the default stream is behind that of all blocking ones. */
        if (r == CUDA_SUCCESS && stream->kind == STREAM_LEGACY) {
                r = stream_submit_marker(stream, NULL, 0, &end);
        } else if (r == CUDA_SUCCESS) {
                emulator_lock();
                end = stream_end(stream);
                emulator_unlock();
        }
        if (r == CUDA_SUCCESS) {
                moment_wait(&end);
                r = context_failure(stream->context);
        }
        moment_clear(&end);
        (void)stream_unref(stream);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxSynchronize(void)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = capture_spoil_context(context);
        emulator_unlock();
        return r == CUDA_SUCCESS ? stream_wait_all(context) : r;
}

static bool is_busy_locked(struct stream *stream)
{
        struct stream *other;

        if (stream->kind == STREAM_LEGACY)
                TAILQ_FOREACH (other, &stream->context->streams, link)
                        if (stream_is_blocking(other) && stream_is_busy(other))
                                return true;
        return stream_is_busy(stream);
}

EMULATOR_API CUresult CUDAAPI cuStreamQuery(CUstream handle)
{
        struct stream *stream;
        CUresult r = emulator_enter_hot(__func__);
        bool busy;

        if (r == CUDA_SUCCESS)
                r = lookup_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check(stream);
        if (r == CUDA_SUCCESS) {
                emulator_lock();
                busy = is_busy_locked(stream);
                emulator_unlock();
                r = context_failure(stream->context);
                if (r == CUDA_SUCCESS && busy)
                        r = CUDA_ERROR_NOT_READY;
        }
        (void)stream_unref(stream);
        return r;
}

static CUresult find_id(CUstream handle, unsigned long long *ret_id)
{
        struct stream *stream;
        CUresult r = lookup_stream(handle, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        capture_check_changing(stream);
        if (stream->place.capture)
                r = capture_spoil(stream->place.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                *ret_id = stream->id;
        (void)stream_unref(stream);
        return r;
}

static NOINLINE CUresult get_id(const char *call, CUstream handle, unsigned long long *ret_id)
{
        struct identity identity;
        CUresult r = emulator_enter_hot(call);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_id)
                return CUDA_ERROR_INVALID_VALUE;
        if (!lookup_identity(handle, &identity) || identity.status != CU_STREAM_CAPTURE_STATUS_NONE)
                return find_id(handle, ret_id);
        *ret_id = identity.id;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long *ret_id)
{
        struct identity identity;

        if (!emulator_is_clear() || !ret_id || !identity_find((uintptr_t)handle, &identity) ||
            identity.status != CU_STREAM_CAPTURE_STATUS_NONE)
                return get_id(__func__, handle, ret_id);
        *ret_id = identity.id;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext *ret_context)
{
        struct identity identity;
        struct stream *stream;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS && !ret_context)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && lookup_identity(handle, &identity)) {
                if (identity.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
                        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
                *ret_context = context_handle(identity.context);
                return CUDA_SUCCESS;
        }
        if (r == CUDA_SUCCESS)
                r = lookup_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        *ret_context = context_handle(stream->context);
        (void)stream_unref(stream);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
        struct stream *stream;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS && flags)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        r = event_order(event, stream);
        (void)stream_unref(stream);
        return r;
}

struct host_call {
        struct operation operation;
        CUhostFn function;
        void *argument;
};

static CUresult host_call_run(struct operation *operation, struct context *context)
{
        struct host_call *call = (struct host_call *)operation;

        (void)context;
        emulator_mark_callback(EMULATOR_IN_CALLBACK);
        call->function(call->argument);
        emulator_mark_callback(EMULATOR_NO_CALLBACK);
        return CUDA_SUCCESS;
}

static void host_call_free(struct operation *operation)
{
        free(operation);
}

static const struct operation_type host_call_type = {.run = host_call_run, .free = host_call_free};

EMULATOR_API CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
        struct host_call *call;
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !function)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        call = calloc(1, sizeof(*call));
        if (call) {
                *call = (struct host_call){.operation.type = &host_call_type,
                                           .function = function,
                                           .argument = argument};
                r = stream_submit(stream, &call->operation, NULL);
        } else {
                r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        (void)stream_unref(stream);
        return r;
}
