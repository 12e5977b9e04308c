#include "driver/emulator/event.h"

#include <stdlib.h>
#include <time.h>

#include "driver/emulator/context.h"
#include "driver/emulator/emulator.h"
#include "driver/emulator/handle.h"
#include "driver/emulator/lookup.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

/* Shared by the event and by the operation that notes the time; counted. */
struct recording {
        unsigned refs;
        struct moment moment;
        struct timespec passed_at;  /* valid once the moment has passed */
        struct capture_place place; /* where it was recorded in a capture, instead of all these */
};

struct event {
        struct context *context;
        uint64_t context_id;
        unsigned flags;
        struct recording *recording; /* NULL: never recorded; under the emulator's lock */
};

struct record {
        struct operation operation;
        struct recording *recording;
};

static struct recording *recording_unref(struct recording *recording)
{
        if (recording && __atomic_sub_fetch(&recording->refs, 1, __ATOMIC_ACQ_REL) == 0) {
                moment_clear(&recording->moment);
                capture_place_clear(&recording->place);
                free(recording);
        }
        return NULL;
}

static CUresult record_run(struct operation *operation, struct context *context)
{
        (void)context;
        (void)clock_gettime(CLOCK_MONOTONIC, &((struct record *)operation)->recording->passed_at);
        return CUDA_SUCCESS;
}

static void record_free(struct operation *operation)
{
        (void)recording_unref(((struct record *)operation)->recording);
        free(operation);
}

static const struct operation_type record_type = {
        .run = record_run, .free = record_free, .outlives = true};

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

static struct moment recording_moment(const struct recording *recording)
{
        return recording ? moment_copy(&recording->moment) : (struct moment){0};
}

/* Nobody can tell when a captured recording is passed. */
static CUresult recording_check(const struct recording *recording)
{
        if (!recording || !recording->place.capture)
                return CUDA_SUCCESS;
        if (capture_state(recording->place.capture) != CAPTURE_ACTIVE)
                return CUDA_ERROR_INVALID_VALUE;
        return capture_spoil(recording->place.capture, CUDA_ERROR_CAPTURED_EVENT);
}

/* The moment, and what failure the event's context has. */
static CUresult event_state(CUevent handle, struct moment *ret_moment, CUresult *ret_failure)
{
        struct event *event;
        CUresult r;

        emulator_lock();
        r = event_find(handle, &event);
        if (r == CUDA_SUCCESS)
                r = recording_check(event->recording);
        if (r == CUDA_SUCCESS) {
                *ret_moment = recording_moment(event->recording);
                *ret_failure = context_failure(event->context);
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
        struct moment moment = {0};
        struct event *event;
        CUresult r;

        emulator_lock();
        r = event_find(handle, &event);
        if (r == CUDA_SUCCESS) {
                const struct recording *recording = event->recording;

                if (stream->place.capture || (recording && recording->place.capture))
                        r = order_captured(recording, stream);
                else
                        moment = recording_moment(recording);
        }
        emulator_unlock();
        return moment.stream ? stream_submit_marker(stream, &moment, NULL) : r;
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

static CUresult record_new(struct record **ret_record)
{
        struct record *record = calloc(1, sizeof(*record));
        struct recording *recording = calloc(1, sizeof(*recording));

        if (!record || !recording) {
                free(record);
                free(recording);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        recording->refs = 2;
        *record = (struct record){.operation.type = &record_type, .recording = recording};
        *ret_record = record;
        return CUDA_SUCCESS;
}

/* Consumes the recording. It was destroyed meanwhile: nobody will ask. */
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
        *ret_captured = stream->place.capture;
        emulator_unlock();
        return r;
}

/* The place only: in a graph, an event is what comes after what. */
static CUresult event_record_captured(CUevent handle, struct stream *stream)
{
        struct recording *recording = calloc(1, sizeof(*recording));
        CUresult r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

        if (!recording)
                return CUDA_ERROR_OUT_OF_MEMORY;
        recording->refs = 1;
        emulator_lock();
        if (stream->place.capture)
                r = capture_record(stream, &recording->place);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                event_set(handle, recording);
        else
                (void)recording_unref(recording);
        return r;
}

static CUresult event_record(CUevent handle, struct stream *stream)
{
        struct recording *recording;
        struct record *record;
        bool captured;
        CUresult r = event_check(handle, stream, &captured);

        if (r == CUDA_SUCCESS && captured)
                return event_record_captured(handle, stream);
        if (r == CUDA_SUCCESS)
                r = record_new(&record);
        if (r != CUDA_SUCCESS)
                return r;
        recording = record->recording;
        r = stream_submit(stream, &record->operation, &recording->moment);
        if (r == CUDA_SUCCESS)
                event_set(handle, recording);
        else
                (void)recording_unref(recording);
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

EMULATOR_API CUresult CUDAAPI cuEventQuery(CUevent handle)
{
        struct moment moment;
        CUresult failure, r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS)
                r = event_state(handle, &moment, &failure);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check_unsafe();
        if (r != CUDA_SUCCESS) {
                moment_clear(&moment);
                return r;
        }
        if (failure == CUDA_SUCCESS && !moment_has_passed(&moment))
                failure = CUDA_ERROR_NOT_READY;
        moment_clear(&moment);
        return failure;
}

EMULATOR_API CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
        struct moment moment;
        CUresult failure, r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = event_state(handle, &moment, &failure);
        if (r != CUDA_SUCCESS)
                return r;
        r = capture_check_unsafe();
        if (r != CUDA_SUCCESS) {
                moment_clear(&moment);
                return r;
        }
        if (moment.stream) {
                moment_wait(&moment);
                failure = context_failure(moment.stream->context);
        }
        moment_clear(&moment);
        return failure;
}

static CUresult event_time(CUevent handle, struct timespec *ret_time)
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
        if (!moment_has_passed(&event->recording->moment))
                return CUDA_ERROR_NOT_READY;
        *ret_time = event->recording->passed_at;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
        struct timespec from, to;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !ret_ms)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = event_time(start, &from);
        if (r == CUDA_SUCCESS)
                r = event_time(end, &to);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                *ret_ms = (float)((double)(to.tv_sec - from.tv_sec) * 1e3 +
                                  (double)(to.tv_nsec - from.tv_nsec) / 1e6);
        return r;
}
