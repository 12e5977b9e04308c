/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/capture.h"

#include <stdlib.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/identity.h"
#include "driver/emulator/stream/stream.h"

struct capture {
        LIST_ENTRY(capture) link;
        unsigned refs; /* its life, and the places that events have in it */
        enum capture_state state;
        uint64_t id;
        uint64_t thread;
        CUstreamCaptureMode mode;
        struct stream *origin;
        struct graph *graph;
        TAILQ_HEAD(, stream) streams; /* each with a count */
};

static LIST_HEAD(, capture) captures = LIST_HEAD_INITIALIZER(captures);
static unsigned n_captures; /* changed under the lock, read without */
static uint64_t last_id, last_thread;

static _Thread_local EMULATOR_HOT_TLS struct {
        CUstreamCaptureMode mode;
        uint64_t id; /* 0: it has begun no capture yet */
} thread;

CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode)
{
        CUstreamCaptureMode before = thread.mode;

        thread.mode = mode;
        return before;
}

static void capture_unref(struct capture *capture)
{
        if (__atomic_sub_fetch(&capture->refs, 1, __ATOMIC_ACQ_REL) == 0)
                free(capture);
}

void capture_place_clear(struct capture_place *place)
{
        if (!place->capture)
                return;
        nodes_clear(&place->tip);
        capture_unref(place->capture);
        place->capture = NULL;
}

static CUresult place_copy(const struct capture_place *place, struct capture_place *ret_copy)
{
        struct capture_place copy = {.capture = place->capture};
        CUresult r = nodes_add_all(&copy.tip, &place->tip);

        if (r != CUDA_SUCCESS) {
                nodes_clear(&copy.tip);
                return r;
        }
        (void)__atomic_add_fetch(&copy.capture->refs, 1, __ATOMIC_RELAXED);
        *ret_copy = copy;
        return CUDA_SUCCESS;
}

enum capture_state capture_state(const struct capture *capture)
{
        return capture->state;
}

uint64_t capture_id(const struct capture *capture)
{
        return capture->id;
}

CUgraph capture_graph(const struct capture *capture)
{
        return (CUgraph)capture->graph->handle;
}

CUstreamCaptureStatus capture_status(const struct stream *stream)
{
        if (!stream->place.capture)
                return CU_STREAM_CAPTURE_STATUS_NONE;
        return stream->place.capture->state == CAPTURE_ACTIVE
                       ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                       : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* Updates the state that is read without a lock. While a capture begins or ends there is none, so that each call looks
 * under the lock. */
static void status_publish(const struct stream *stream)
{
        if (!stream->handle)
                return;
        if (stream->n_changing)
                identity_remove(stream->handle);
        else
                identity_put(stream->handle, &(struct identity){.id = stream->id,
                                                                .context = stream->context,
                                                                .status = capture_status(stream)});
}

/* Consumes the place. */
static void stream_join(struct stream *stream, struct capture_place take_place)
{
        stream->place = take_place;
        (void)stream_ref(stream);
        TAILQ_INSERT_TAIL(&take_place.capture->streams, stream, capture_link);
        if (stream_is_blocking(stream))
                (void)__atomic_add_fetch(&stream->context->n_capturing, 1, __ATOMIC_RELEASE);
        status_publish(stream);
}

static void stream_leave(struct stream *stream)
{
        TAILQ_REMOVE(&stream->place.capture->streams, stream, capture_link);
        capture_place_clear(&stream->place);
        if (stream_is_blocking(stream))
                (void)__atomic_sub_fetch(&stream->context->n_capturing, 1, __ATOMIC_RELEASE);
        status_publish(stream);
        (void)stream_unref(stream);
}

CUresult capture_begin(struct stream *stream, CUstreamCaptureMode mode)
{
        struct capture *capture;
        CUresult r;

        if (stream->kind == STREAM_LEGACY)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (stream->place.capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        capture = calloc(1, sizeof(*capture));
        if (!capture)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = graph_new(NULL, &capture->graph);
        if (r != CUDA_SUCCESS) {
                free(capture);
                return r;
        }
        if (!thread.id)
                thread.id = ++last_thread;
        capture->refs = 2;
        capture->id = ++last_id;
        capture->thread = thread.id;
        capture->mode = mode;
        capture->origin = stream;
        TAILQ_INIT(&capture->streams);
        LIST_INSERT_HEAD(&captures, capture, link);
        __atomic_store_n(&n_captures, n_captures + 1, __ATOMIC_RELEASE);
        stream_join(stream, (struct capture_place){.capture = capture});
        return CUDA_SUCCESS;
}

static struct graph *capture_finish(struct capture *capture)
{
        struct graph *graph = capture->graph;
        struct stream *stream;

        capture->state = CAPTURE_ENDED;
        capture->graph = NULL;
        while ((stream = TAILQ_FIRST(&capture->streams)))
                stream_leave(stream);
        LIST_REMOVE(capture, link);
        __atomic_store_n(&n_captures, n_captures - 1, __ATOMIC_RELEASE);
        capture_unref(capture);
        return graph;
}

/* The reason why the capture cannot give a graph. */
static CUresult capture_failure(const struct capture *capture)
{
        bool joined;
        CUresult r;

        if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread.id)
                return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        if (capture->state == CAPTURE_INVALIDATED)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        r = plan_ends_in(capture->graph->plan, &capture->origin->place.tip, &joined);
        return r == CUDA_SUCCESS && !joined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : r;
}

CUresult capture_end(struct stream *stream, struct graph **ret_graph, struct user_list *dead)
{
        struct capture *capture = stream->place.capture;
        struct graph *graph;
        CUresult r;

        if (!capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        if (capture->origin != stream)
                return capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        r = capture_failure(capture);
        graph = capture_finish(capture);
        if (r != CUDA_SUCCESS) {
                graph_free(graph, dead);
                return r;
        }
        graph->state = GRAPH_COMPLETE;
        *ret_graph = graph;
        return CUDA_SUCCESS;
}

void capture_forget(struct stream *stream, struct user_list *dead)
{
        struct capture *capture = stream->place.capture;

        if (!capture)
                return;
        if (capture->origin == stream)
                graph_free(capture_finish(capture), dead);
        else
                stream_leave(stream);
}

/* Far longer than a thread takes from one call to the next. */
#define CHANGE_US 20

void capture_change(struct stream *stream)
{
        emulator_lock();
        stream->n_changing++;
        status_publish(stream);
        emulator_unlock();
        clock_sleep_us(CHANGE_US);
}

void capture_changed(struct stream *stream)
{
        stream->n_changing--;
        status_publish(stream);
}

void capture_check_changing(const struct stream *stream)
{
        if (stream->n_changing)
                emulator_end("a thread uses a stream in which another begins or ends a capture");
}

CUresult capture_add(struct stream *stream, struct operation *take_operation)
{
        struct capture *capture = stream->place.capture;
        struct nodes tip = {0};
        struct node *node;
        CUresult r;

        if (capture->state != CAPTURE_ACTIVE)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        /* Makes the set first: a node cannot be taken out of the plan again. */
        r = nodes_add(&tip, NULL);
        if (r == CUDA_SUCCESS)
                r = plan_add(capture->graph->plan, take_operation, stream->context,
                             &stream->place.tip, &node);
        if (r != CUDA_SUCCESS) {
                nodes_clear(&tip);
                return r;
        }
        tip.items[0] = node;
        nodes_clear(&stream->place.tip);
        stream->place.tip = tip;
        return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *stream, struct capture_place *ret_place)
{
        if (stream->place.capture->state != CAPTURE_ACTIVE)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        return place_copy(&stream->place, ret_place);
}

CUresult capture_wait(struct stream *stream, const struct capture_place *place)
{
        struct capture *own = stream->place.capture;
        struct capture_place copy;
        CUresult r;

        capture_check_changing(stream);
        if (own && own->state != CAPTURE_ACTIVE)
                return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (place->capture->state != CAPTURE_ACTIVE)
                return CUDA_ERROR_INVALID_VALUE;
        if (stream->kind == STREAM_LEGACY)
                return capture_spoil(place->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        if (own == place->capture)
                return nodes_add_all(&stream->place.tip, &place->tip);
        if (own) {
                (void)capture_spoil(own, CUDA_ERROR_STREAM_CAPTURE_MERGE);
                return capture_spoil(place->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        }
        r = place_copy(place, &copy);
        if (r == CUDA_SUCCESS)
                stream_join(stream, copy);
        return r;
}

CUresult capture_spoil(struct capture *capture, CUresult result)
{
        struct stream *stream;

        if (capture->state != CAPTURE_ACTIVE)
                return result;
        capture->state = CAPTURE_INVALIDATED;
        TAILQ_FOREACH (stream, &capture->streams, capture_link)
                status_publish(stream);
        return result;
}

CUresult capture_spoil_context(struct context *context)
{
        CUresult r = CUDA_SUCCESS;
        struct stream *stream;

        TAILQ_FOREACH (stream, &context->streams, link)
                if (stream->place.capture)
                        r = capture_spoil(stream->place.capture,
                                          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        return r;
}

CUresult capture_spoil_implicit(struct context *context)
{
        CUresult r = CUDA_SUCCESS;
        struct stream *stream;

        if (!context->n_capturing)
                return CUDA_SUCCESS;
        TAILQ_FOREACH (stream, &context->streams, link)
                if (stream->place.capture && stream_is_blocking(stream))
                        r = capture_spoil(stream->place.capture,
                                          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        return r;
}

static bool is_forbidden_by(const struct capture *capture)
{
        if (capture->thread == thread.id)
                return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
               thread.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe(void)
{
        CUresult r = CUDA_SUCCESS;
        struct capture *capture;

        if (!__atomic_load_n(&n_captures, __ATOMIC_ACQUIRE) ||
            thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_SUCCESS;
        emulator_lock();
        LIST_FOREACH (capture, &captures, link)
                if (is_forbidden_by(capture))
                        r = capture_spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        emulator_unlock();
        return r;
}

CUresult capture_enter_unsafe(const char *call)
{
        CUresult r = emulator_enter(call);

        return r == CUDA_SUCCESS ? capture_check_unsafe() : r;
}
