/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: identifies them, finds their device, and waits for their work. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"
#include "gpumem.h"

/* Identifies a stream for the life of the process: handles are reused after a destroy, ids are not. The per-thread
 * default stream has one handle in all threads, and an id in each. */
struct stream_key {
        uint64_t context; /* the context's handle */
        uint64_t id;
        uint64_t capture; /* its capture's number, driver/capture.h; 0: it captures nothing */
};

/* Identifies `stream`, which may be NULL for the default stream of the current context, and its device.
 * GPUMEM_E_UNSUPPORTED: it captures. GPUMEM_E_NO_CONTEXT: the handle needs a current context, and there is none.
 * -EINVAL: the handle is not a valid stream. */
int stream_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                    int *ret_ordinal);

/* The same for memory that all devices reach. Instead of the device it tells the id of the stream's context, as
 * context_has_ended does; 0: the driver tells none. */
int stream_identify_host(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                         uint64_t *ret_context_id);

/* As stream_identify for a stream that captures. The driver invalidates a capture when it is asked for the stream's id. During
 * the capture no other stream has the handle, so the handle serves as the id, except for per-thread default streams. */
int stream_identify_captured(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                             int *ret_ordinal);
uint64_t stream_captured_id(void *stream);

/* The stream's context. GPUMEM_E_NO_CONTEXT: it is a default stream, and no context is current. */
int stream_find_context(const struct cuda *cuda, void *stream, uint64_t *ret_context);

/* Tells streams of a process apart, at the cost of two driver calls. Ids are unique in the process, except for those
 * of default streams, which are unique in their context. */
struct stream_mark {
        uint64_t scope; /* a default stream's context; or see capture_look; else 0 */
        uint64_t id;
};

/* A mark that no stream has. */
static const struct stream_mark stream_mark_none = {.scope = UINT64_MAX, .id = UINT64_MAX};

/* Was the stream created? The handles of default streams mean different streams in different contexts or threads. */
static inline bool stream_is_created(const void *stream)
{
        return stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/* Is it the default stream of a context, which lives as long as that? */
static inline bool stream_is_legacy(const void *stream)
{
        return !stream || stream == CU_STREAM_LEGACY;
}

/* GPUMEM_E_UNSUPPORTED: it captures; then use capture_look and capture_identify. */
static inline int stream_check(const struct cuda *cuda, void *stream)
{
        CUstreamCaptureStatus status;
        int r = CUDA_CALL(cuda, cuStreamIsCapturing, stream, &status);

        if (r)
                return r;
        return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : GPUMEM_E_UNSUPPORTED;
}

/* Is it the default stream of the current context, of which a blocking stream captures? Work that is enqueued in it
 * would end that capture; to ask does not. */
bool stream_is_locked(const struct cuda *cuda, void *stream);

/* The mark of a stream that does not capture; errors as stream_identify. */
int stream_look_default(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark);

static inline int stream_look(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark)
{
        unsigned long long id;
        int r;

        if (!stream_is_created(stream))
                return stream_look_default(cuda, stream, ret_mark);
        r = stream_check(cuda, stream);
        if (!r)
                r = CUDA_CALL(cuda, cuStreamGetId, stream, &id);
        if (r)
                return r;
        *ret_mark = (struct stream_mark){.scope = 0, .id = id};
        return 0;
}

/* Waits for all work that was enqueued in the stream before. */
int stream_synchronize(const struct cuda *cuda, void *stream);

/* Waits for all work of a context, with the calling thread's capture mode relaxed (driver/capture.h). Launches of
 * other threads wait meanwhile. The context is made current for the call. A context that was destroyed has no work. */
int stream_synchronize_context(const struct cuda *cuda, uint64_t context);

/* Waits for all work of a context (0: of none), and of the calling thread's current one, if any. */
int stream_synchronize_contexts(const struct cuda *cuda, uint64_t context);
