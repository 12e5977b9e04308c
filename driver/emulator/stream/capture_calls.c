/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls on captures. */
#include <cuda.h>
#include <stdlib.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/stream.h"

static bool is_mode(CUstreamCaptureMode mode)
{
        return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
               mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}

EMULATOR_API CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        /* The driver takes any number here. */
        if (!mode)
                return CUDA_ERROR_INVALID_VALUE;
        *mode = capture_exchange_mode(*mode);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !is_mode(mode))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        capture_change(stream);
        emulator_lock();
        r = capture_begin(stream, mode);
        capture_changed(stream);
        emulator_unlock();
        (void)stream_unref(stream);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *ret_graph)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct graph *graph = NULL;
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = lookup_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        capture_change(stream);
        emulator_lock();
        r = capture_end(stream, &graph, &dead);
        capture_changed(stream);
        /* The graph exists even if the caller does not want its handle. */
        if (ret_graph)
                *ret_graph = (CUgraph)(graph ? graph->handle : 0);
        emulator_unlock();
        (void)stream_unref(stream);
        user_destroy(&dead);
        return r;
}

/* The default stream has no answer while a blocking stream captures; to ask spoils nothing. */
static CUresult status_get(const struct stream *stream, CUstreamCaptureStatus *ret_status)
{
        if (stream->kind == STREAM_LEGACY && stream->context->n_capturing)
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        *ret_status = capture_status(stream);
        return CUDA_SUCCESS;
}

static CUresult find_status(CUstream handle, CUstreamCaptureStatus *ret_status)
{
        struct stream *stream;
        CUresult r = lookup_usable_stream(handle, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = status_get(stream, ret_status);
        emulator_unlock();
        (void)stream_unref(stream);
        return r;
}

static NOINLINE CUresult get_status(const char *call, CUstream handle,
                                    CUstreamCaptureStatus *ret_status)
{
        struct identity identity;
        CUresult r = emulator_enter_hot(call);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_status)
                return CUDA_ERROR_INVALID_VALUE;
        if (!lookup_identity(handle, &identity))
                return find_status(handle, ret_status);
        *ret_status = identity.status;
        return context_failure(identity.context);
}

EMULATOR_API CUresult CUDAAPI cuStreamIsCapturing(CUstream handle,
                                                  CUstreamCaptureStatus *ret_status)
{
        struct identity identity;

        if (!emulator_is_clear() || !ret_status || !identity_find((uintptr_t)handle, &identity))
                return get_status(__func__, handle, ret_status);
        *ret_status = identity.status;
        return context_failure(identity.context);
}

/* Where the answers go; NULL: not requested. */
struct answers {
        cuuint64_t *id;
        CUgraph *graph;
        const CUgraphNode **dependencies;
        const CUgraphEdgeData **edges;
        size_t *n_dependencies;
};

/* No edge bears data, but there is one for each. */
static CUresult edges_get(struct stream *stream, const CUgraphEdgeData **ret_edges)
{
        CUgraphEdgeData *edges = calloc((size_t)stream->place.tip.n + 1, sizeof(*edges));

        if (!edges)
                return CUDA_ERROR_OUT_OF_MEMORY;
        free(stream->edges);
        stream->edges = edges;
        *ret_edges = edges;
        return CUDA_SUCCESS;
}

static CUresult place_answer(struct stream *stream, const struct answers *answers)
{
        const struct capture_place *place = &stream->place;
        CUresult r = answers->edges ? edges_get(stream, answers->edges) : CUDA_SUCCESS;

        if (r != CUDA_SUCCESS)
                return r;
        if (answers->id)
                *answers->id = capture_id(place->capture);
        if (answers->graph)
                *answers->graph = capture_graph(place->capture);
        if (answers->dependencies)
                *answers->dependencies = (const CUgraphNode *)place->tip.items;
        if (answers->n_dependencies)
                *answers->n_dependencies = place->tip.n;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle,
                                                     CUstreamCaptureStatus *ret_status,
                                                     cuuint64_t *ret_id, CUgraph *ret_graph,
                                                     const CUgraphNode **ret_dependencies,
                                                     const CUgraphEdgeData **ret_edges,
                                                     size_t *ret_n_dependencies)
{
        const struct answers answers = {.id = ret_id,
                                        .graph = ret_graph,
                                        .dependencies = ret_dependencies,
                                        .edges = ret_edges,
                                        .n_dependencies = ret_n_dependencies};
        struct stream *stream;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS && (!ret_status || (ret_edges && !ret_dependencies)))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        capture_check_changing(stream);
        r = status_get(stream, ret_status);
        if (r == CUDA_SUCCESS && *ret_status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
                r = place_answer(stream, &answers);
        emulator_unlock();
        (void)stream_unref(stream);
        return r;
}
