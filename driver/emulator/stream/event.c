/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/event.h"

#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/recording.h"
#include "driver/emulator/stream/submit.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

struct event {
        struct context *context;
        uint64_t context_id;
        unsigned flags;
        struct recording *recording; /* NULL: never recorded; under the emulator's lock */
};

static CUresult event_find(CUevent handle, struct event **ret_event)
{
        struct event *event = handle_find(HANDLE_EVENT, (uintptr_t)handle);

        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        /* The H200's driver says that the context is destroyed, or crashes. */
        if (event->context->state != CONTEXT_ACTIVE || event->context->id != event->context_id)
                emulator_end("an event of a context that has ended is used");
        *ret_event = event;
        return CUDA_SUCCESS;
}

/* A capture is not work yet: the question when it has passed spoils it. */
static CUresult recording_check(const struct recording *recording)
{
        if (!recording || !recording->place.capture)
                return CUDA_SUCCESS;
        if (capture_state(recording->place.capture) != CAPTURE_ACTIVE)
                return CUDA_ERROR_INVALID_VALUE;
        return capture_spoil(recording->place.capture, CUDA_ERROR_CAPTURED_EVENT);
}

/* The recording, with a count of it for the caller, and the context, whose failure is the event's. */
static CUresult event_state(CUevent handle, struct recording **ret_recording,
                            struct context **ret_context)
{
        struct event *event;
        CUresult r;

        emulator_lock();
        r = event_find(handle, &event);
        if (r == CUDA_SUCCESS)
                r = recording_check(event->recording);
        if (r == CUDA_SUCCESS) {
                *ret_recording = recording_ref(event->recording);
                *ret_context = event->context;
        }
        emulator_unlock();
        return r;
}

/* In a capture, an event from outside cannot be waited for; one never recorded holds nothing up. */
static CUresult order_captured(const struct recording *recording, struct stream *stream)
{
        struct capture *capture = stream->place.capture;

        if (recording && recording->place.capture)
                return capture_wait(stream, &recording->place);
        if (capture_state(capture) != CAPTURE_ACTIVE)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        return recording ? capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                         : CUDA_SUCCESS;
}

CUresult event_order(CUevent handle, struct stream *stream)
{
        struct recording *recording = NULL;
        struct event *event;
        CUresult r;

        emulator_lock();
        r = event_find(handle, &event);
        if (r == CUDA_SUCCESS) {
                recording = event->recording;
                if (stream->place.capture || (recording && recording->place.capture)) {
                        r = order_captured(recording, stream);
                        recording = NULL;
                }
                (void)recording_ref(recording);
        }
        emulator_unlock();
        if (recording)
                r = stream_submit_marker(stream, recording->moments, recording->n_moments, NULL);
        (void)recording_unref(recording);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventCreate(CUevent *ret_handle, unsigned int flags)
{
        struct context *context;
        uintptr_t handle;
        struct event *event;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || flags & ~(unsigned)EVENT_FLAGS ||
            (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
                return CUDA_ERROR_INVALID_VALUE;
        event = calloc(1, sizeof(*event));
        if (!event)
                return CUDA_ERROR_OUT_OF_MEMORY;
        emulator_lock();
        r = context_get(&context);
        if (r == CUDA_SUCCESS && handle_new(HANDLE_EVENT, event, &handle))
                r = CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS)
                *event = (struct event){
                        .context = context, .context_id = context->id, .flags = flags};
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                *ret_handle = (CUevent)handle;
        else
                free(event);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventDestroy(CUevent handle)
{
        struct event *event, *live;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = event_find(handle, &live);
        event = handle_find(HANDLE_EVENT, (uintptr_t)handle);
        handle_free(HANDLE_EVENT, (uintptr_t)handle);
        emulator_unlock();
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        (void)recording_unref(event->recording);
        free(event);
        return r;
}

/* Consumes the recording. An event that was destroyed meanwhile needs none. */
static void event_set(CUevent handle, struct recording *take_recording)
{
        struct event *event;

        emulator_lock();
        event = handle_find(HANDLE_EVENT, (uintptr_t)handle);
        if (event) {
                struct recording *before = event->recording;

                event->recording = take_recording;
                take_recording = before;
        }
        emulator_unlock();
        (void)recording_unref(take_recording);
}

static CUresult event_check(CUevent handle, const struct stream *stream, bool *ret_captured)
{
        struct event *event;
        CUresult r;

        emulator_lock();
        r = event_find(handle, &event);
        if (r == CUDA_SUCCESS && event->context != stream->context)
                r = CUDA_ERROR_INVALID_HANDLE;
        capture_check_changing(stream);
        *ret_captured = stream->place.capture;
        emulator_unlock();
        return r;
}

static CUresult event_record(CUevent handle, struct stream *stream)
{
        struct recording *recording;
        bool captured;
        CUresult r = event_check(handle, stream, &captured);

        if (r == CUDA_SUCCESS)
                r = captured ? recording_of_capture(stream, &recording)
                             : recording_of_stream(stream, &recording);
        if (r == CUDA_SUCCESS)
                event_set(handle, recording);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle)
{
        struct stream *stream;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(stream_handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        r = event_record(handle, stream);
        (void)stream_unref(stream);
        return r;
}

/* With the emulator's lock held. `ret_before` is the recording that the event had. */
static CUresult event_record_all(CUevent handle, struct context *context,
                                 struct recording **ret_before)
{
        struct recording *recording;
        struct event *event;
        CUresult r = event_find(handle, &event);

        if (r == CUDA_SUCCESS && event->context != context)
                r = CUDA_ERROR_INVALID_HANDLE;
        if (r == CUDA_SUCCESS)
                r = context_failure(context);
        if (r == CUDA_SUCCESS)
                r = capture_spoil_context(context);
        if (r == CUDA_SUCCESS)
                r = recording_of_context(context, &recording);
        if (r == CUDA_SUCCESS) {
                *ret_before = event->recording;
                event->recording = recording;
        }
        return r;
}

/* Neither the current context nor the thread's capture mode matters. */
EMULATOR_API CUresult CUDAAPI cuCtxRecordEvent(CUcontext whole, CUevent handle)
{
        struct recording *before = NULL;
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        context = handle_find(HANDLE_CONTEXT, (uintptr_t)whole);
        if (!context)
                r = CUDA_ERROR_INVALID_CONTEXT;
        else if (context->state != CONTEXT_ACTIVE)
                emulator_end("an event is recorded in a context that has ended");
        else
                r = event_record_all(handle, context, &before);
        emulator_unlock();
        (void)recording_unref(before);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventQuery(CUevent handle)
{
        struct recording *recording;
        struct context *context;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS)
                r = event_state(handle, &recording, &context);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check_unsafe();
        if (r == CUDA_SUCCESS) {
                bool passed = recording_has_passed(recording);

                r = context_failure(context);
                if (r == CUDA_SUCCESS && !passed)
                        r = CUDA_ERROR_NOT_READY;
        }
        (void)recording_unref(recording);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
        struct recording *recording;
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = event_state(handle, &recording, &context);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check_unsafe();
        if (r == CUDA_SUCCESS) {
                recording_wait(recording);
                r = context_failure(context);
        }
        (void)recording_unref(recording);
        return r;
}

static CUresult event_time(CUevent handle, uint64_t *ret_ns)
{
        struct event *event;
        CUresult r = event_find(handle, &event);

        if (r != CUDA_SUCCESS)
                return r;
        if (event->flags & CU_EVENT_DISABLE_TIMING || !event->recording)
                return CUDA_ERROR_INVALID_HANDLE;
        /* Unlike the calls that ask whether it has passed, this one spoils nothing. */
        if (event->recording->place.capture)
                return capture_state(event->recording->place.capture) == CAPTURE_ACTIVE
                               ? CUDA_ERROR_CAPTURED_EVENT
                               : CUDA_ERROR_INVALID_VALUE;
        if (!recording_has_passed(event->recording))
                return CUDA_ERROR_NOT_READY;
        *ret_ns = __atomic_load_n(&event->recording->passed_ns, __ATOMIC_ACQUIRE);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
        uint64_t from_ns, to_ns;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !ret_ms)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = event_time(start, &from_ns);
        if (r == CUDA_SUCCESS)
                r = event_time(end, &to_ns);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                *ret_ms = (float)((double)((int64_t)to_ns - (int64_t)from_ns) / 1e6);
        return r;
}
