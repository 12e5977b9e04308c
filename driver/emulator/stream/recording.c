/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/recording.h"

#include <stdlib.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/submit.h"

/* Notes the time at which its stream comes to it. */
struct record {
        struct operation operation;
        struct recording *recording;
};

/* Streams come to their records in any order, and the last time counts. */
static void pass(struct recording *recording)
{
        uint64_t ns = clock_now_ns(),
                 before = __atomic_load_n(&recording->passed_ns, __ATOMIC_ACQUIRE);

        while (before < ns &&
               !__atomic_compare_exchange_n(&recording->passed_ns, &before, ns, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                ;
}

static CUresult record_run(struct operation *operation, struct context *context)
{
        (void)context;
        pass(((struct record *)operation)->recording);
        return CUDA_SUCCESS;
}

static void record_free(struct operation *operation)
{
        (void)recording_unref(((struct record *)operation)->recording);
        free(operation);
}

static const struct operation_type record_type = {
        .run = record_run, .free = record_free, .outlives = true};

static CUresult record_new(struct recording *recording, struct record **ret_record)
{
        struct record *record = calloc(1, sizeof(*record));

        if (!record)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *record = (struct record){.operation.type = &record_type,
                                  .recording = recording_ref(recording)};
        *ret_record = record;
        return CUDA_SUCCESS;
}

/* With room for so many moments. */
static CUresult recording_new(unsigned n_moments, struct recording **ret_recording)
{
        struct recording *recording = calloc(1, sizeof(*recording) +
                                                        n_moments * sizeof(struct moment));

        if (!recording)
                return CUDA_ERROR_OUT_OF_MEMORY;
        recording->refs = 1;
        *ret_recording = recording;
        return CUDA_SUCCESS;
}

struct recording *recording_ref(struct recording *recording)
{
        if (recording)
                (void)__atomic_add_fetch(&recording->refs, 1, __ATOMIC_RELAXED);
        return recording;
}

struct recording *recording_unref(struct recording *recording)
{
        if (recording && __atomic_sub_fetch(&recording->refs, 1, __ATOMIC_ACQ_REL) == 0) {
                for (unsigned i = 0; i < recording->n_moments; i++)
                        moment_clear(&recording->moments[i]);
                capture_place_clear(&recording->place);
                free(recording);
        }
        return NULL;
}

bool recording_has_passed(const struct recording *recording)
{
        for (unsigned i = 0; recording && i < recording->n_moments; i++)
                if (!moment_has_passed(&recording->moments[i]))
                        return false;
        return true;
}

void recording_wait(const struct recording *recording)
{
        for (unsigned i = 0; recording && i < recording->n_moments; i++)
                moment_wait(&recording->moments[i]);
}

CUresult recording_of_stream(struct stream *stream, struct recording **ret_recording)
{
        struct recording *recording;
        struct record *record;
        CUresult r = recording_new(1, &recording);

        if (r != CUDA_SUCCESS)
                return r;
        r = record_new(recording, &record);
        if (r == CUDA_SUCCESS)
                r = stream_submit(stream, &record->operation, recording->moments);
        if (r == CUDA_SUCCESS) {
                recording->n_moments = 1;
                *ret_recording = recording;
        } else {
                (void)recording_unref(recording);
        }
        return r;
}

/* A stream that has nothing left adds no moment. */
static CUresult record_behind(struct stream *stream, struct recording *recording)
{
        struct record *record;
        CUresult r;

        if (!stream_is_busy(stream))
                return CUDA_SUCCESS;
        r = record_new(recording, &record);
        if (r != CUDA_SUCCESS)
                return r;
        if (stream_append(stream, &record->operation, &recording->moments[recording->n_moments]))
                recording->n_moments++;
        else
                operation_free(&record->operation);
        return CUDA_SUCCESS;
}

CUresult recording_of_context(struct context *context, struct recording **ret_recording)
{
        struct recording *recording;
        struct stream *stream;
        unsigned n_streams = 0;
        CUresult r;

        TAILQ_FOREACH (stream, &context->streams, link)
                n_streams++;
        r = recording_new(n_streams, &recording);
        if (r != CUDA_SUCCESS)
                return r;
        pass(recording);
        TAILQ_FOREACH (stream, &context->streams, link) {
                r = record_behind(stream, recording);
                if (r != CUDA_SUCCESS) {
                        (void)recording_unref(recording);
                        return r;
                }
        }
        *ret_recording = recording;
        return CUDA_SUCCESS;
}

CUresult recording_of_capture(struct stream *stream, struct recording **ret_recording)
{
        struct recording *recording;
        CUresult r = recording_new(0, &recording);

        if (r != CUDA_SUCCESS)
                return r;
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        emulator_lock();
        if (stream->place.capture)
                r = capture_record(stream, &recording->place);
        emulator_unlock();
        if (r == CUDA_SUCCESS)
                *ret_recording = recording;
        else
                (void)recording_unref(recording);
        return r;
}
