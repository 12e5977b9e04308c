/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/stream.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"

/* Both under the emulator's lock. */
static uint64_t last_id; /* ids are never used twice */
static TAILQ_HEAD(, stream) all_streams = TAILQ_HEAD_INITIALIZER(all_streams);

static size_t page_bytes(void)
{
        return (size_t)sysconf(_SC_PAGESIZE);
}

struct stream *stream_ref(struct stream *stream)
{
        (void)__atomic_add_fetch(&stream->refs, 1, __ATOMIC_RELAXED);
        return stream;
}

struct stream *stream_unref(struct stream *stream)
{
        if (stream && __atomic_sub_fetch(&stream->refs, 1, __ATOMIC_ACQ_REL) == 0) {
                (void)pthread_cond_destroy(&stream->changed);
                (void)pthread_mutex_destroy(&stream->mutex);
                (void)munmap(stream->progress, page_bytes());
                free(stream->edges);
                free(stream);
        }
        return NULL;
}

bool stream_is_captured(const struct stream *stream)
{
        bool captured;

        emulator_lock();
        captured = stream->place.capture;
        emulator_unlock();
        return captured;
}

bool stream_is_blocking(const struct stream *stream)
{
        return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

struct moment moment_copy(const struct moment *moment)
{
        if (moment->stream)
                (void)stream_ref(moment->stream);
        return *moment;
}

void moment_clear(struct moment *moment)
{
        moment->stream = stream_unref(moment->stream);
}

bool moment_has_passed(const struct moment *moment)
{
        return !moment->stream ||
               __atomic_load_n(&moment->stream->completed, __ATOMIC_ACQUIRE) >= moment->sequence;
}

void moment_wait(const struct moment *moment)
{
        struct stream *stream = moment->stream;

        if (moment_has_passed(moment))
                return;
        (void)pthread_mutex_lock(&stream->mutex);
        while (!moment_has_passed(moment))
                (void)pthread_cond_wait(&stream->changed, &stream->mutex);
        (void)pthread_mutex_unlock(&stream->mutex);
}

struct moment stream_end(struct stream *stream)
{
        return (struct moment){.stream = stream_ref(stream), .sequence = stream->submitted};
}

bool stream_is_busy(struct stream *stream)
{
        return __atomic_load_n(&stream->completed, __ATOMIC_ACQUIRE) < stream->submitted;
}

void operation_free(struct operation *operation)
{
        for (unsigned i = 0; i < operation->n_after; i++)
                moment_clear(&operation->after[i]);
        free(operation->after);
        operation->type->free(operation);
}

CUresult operation_add_after(struct operation *operation, struct moment take_moment)
{
        struct moment *after = reallocarray(operation->after, operation->n_after + 1,
                                            sizeof(struct moment));

        if (!after) {
                moment_clear(&take_moment);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        after[operation->n_after++] = take_moment;
        operation->after = after;
        return CUDA_SUCCESS;
}

static CUresult streams_ends(struct context *context, struct moment **ret_ends, unsigned *ret_n)
{
        struct stream *stream;
        struct moment *ends;
        unsigned n = 0;

        TAILQ_FOREACH (stream, &context->streams, link)
                n++;
        ends = calloc(n + 1, sizeof(*ends));
        if (!ends)
                return CUDA_ERROR_OUT_OF_MEMORY;
        n = 0;
        TAILQ_FOREACH (stream, &context->streams, link)
                ends[n++] = stream_end(stream);
        *ret_ends = ends;
        *ret_n = n;
        return CUDA_SUCCESS;
}

CUresult stream_wait_all(struct context *context)
{
        struct moment *ends;
        unsigned n;
        CUresult r;

        emulator_lock();
        r = streams_ends(context, &ends, &n);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                return r;
        for (unsigned i = 0; i < n; i++) {
                moment_wait(&ends[i]);
                moment_clear(&ends[i]);
        }
        free(ends);
        return context_failure(context);
}

/* NULL: closed, and nothing left. */
static struct operation *stream_take(struct stream *stream)
{
        struct operation *operation;

        (void)pthread_mutex_lock(&stream->mutex);
        while (!stream->first && stream->state == STREAM_OPEN)
                (void)pthread_cond_wait(&stream->changed, &stream->mutex);
        operation = stream->first;
        if (operation) {
                stream->first = operation->next;
                if (!stream->first)
                        stream->last = &stream->first;
        }
        stream->running = operation;
        (void)pthread_mutex_unlock(&stream->mutex);
        return operation;
}

static void stream_run(struct stream *stream, struct operation *operation)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned i = 0; i < operation->n_after; i++)
                moment_wait(&operation->after[i]);
        clock_sleep_us(emulator_get()->config.copy_delay_us);
        if (context_failure(stream->context) == CUDA_SUCCESS)
                r = operation->type->run(operation, stream->context);
        if (r != CUDA_SUCCESS)
                context_fail(stream->context, r);
        (void)pthread_mutex_lock(&stream->mutex);
        stream->running = NULL;
        __atomic_store_n(stream->progress, operation->sequence, __ATOMIC_RELEASE);
        (void)pthread_mutex_unlock(&stream->mutex);
        operation_free(operation);

        (void)pthread_mutex_lock(&stream->mutex);
        (void)__atomic_add_fetch(&stream->completed, 1, __ATOMIC_RELEASE);
        (void)pthread_cond_broadcast(&stream->changed);
        (void)pthread_mutex_unlock(&stream->mutex);
}

static void *stream_main(void *argument)
{
        struct stream *stream = argument;
        struct operation *operation;

        while ((operation = stream_take(stream)))
                stream_run(stream, operation);
        emulator_lock();
        TAILQ_REMOVE(&stream->context->streams, stream, link);
        TAILQ_REMOVE(&all_streams, stream, all);
        emulator_unlock();
        (void)stream_unref(stream);
        return NULL;
}

CUresult stream_new(struct context *context, enum stream_kind kind, unsigned flags, int priority,
                    struct stream **ret_stream)
{
        struct stream *stream = calloc(1, sizeof(*stream));
        void *progress = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (!stream || progress == MAP_FAILED) {
                free(stream);
                if (progress != MAP_FAILED)
                        (void)munmap(progress, page_bytes());
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *stream = (struct stream){.context = context,
                                  .kind = kind,
                                  .flags = flags,
                                  .priority = priority,
                                  .refs = 2,
                                  .progress = progress,
                                  .last = &stream->first};
        (void)pthread_mutex_init(&stream->mutex, NULL);
        (void)pthread_cond_init(&stream->changed, NULL);
        if (emulator_start_thread(stream_main, stream)) {
                stream->refs = 1;
                (void)stream_unref(stream);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        stream->id = ++last_id;
        TAILQ_INSERT_TAIL(&context->streams, stream, link);
        TAILQ_INSERT_TAIL(&all_streams, stream, all);
        *ret_stream = stream;
        return CUDA_SUCCESS;
}

struct stream *stream_next(struct stream *stream)
{
        return stream ? TAILQ_NEXT(stream, all) : TAILQ_FIRST(&all_streams);
}

void stream_close(struct stream *take_stream)
{
        (void)pthread_mutex_lock(&take_stream->mutex);
        take_stream->state = STREAM_CLOSED;
        (void)pthread_cond_broadcast(&take_stream->changed);
        (void)pthread_mutex_unlock(&take_stream->mutex);
        (void)stream_unref(take_stream);
}

/* With the stream's mutex held. */
static void queue_last(struct stream *stream, struct operation *operation)
{
        operation->next = NULL;
        *stream->last = operation;
        stream->last = &operation->next;
        operation->sequence = ++stream->submitted;
        (void)pthread_cond_broadcast(&stream->changed);
}

/* The thread of a stream that was closed looks once more, as long as it has not done all. */
bool stream_append(struct stream *stream, struct operation *take_operation,
                   struct moment *ret_moment)
{
        bool is_busy;

        (void)pthread_mutex_lock(&stream->mutex);
        is_busy = stream_is_busy(stream);
        if (is_busy)
                queue_last(stream, take_operation);
        (void)pthread_mutex_unlock(&stream->mutex);
        if (is_busy)
                *ret_moment = stream_end(stream);
        return is_busy;
}

CUresult stream_queue(struct stream *stream, struct operation *take_operation)
{
        CUresult r = CUDA_SUCCESS;

        (void)pthread_mutex_lock(&stream->mutex);
        if (stream->state == STREAM_OPEN) {
                queue_last(stream, take_operation);
        } else {
                r = CUDA_ERROR_INVALID_HANDLE;
        }
        (void)pthread_mutex_unlock(&stream->mutex);
        return r;
}
