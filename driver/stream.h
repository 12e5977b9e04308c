/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: which one it is, what device it is on, and waiting for its work. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"
#include "gpumem.h"

/* Who a stream is, for as long as the process lives: handles are used again after destroy, ids are
 * not. The per-thread default stream has one handle in all threads and an id in each. */
struct stream_key {
        uint64_t context; /* the context's handle */
        uint64_t id;
        uint64_t capture; /* what it captures, driver/capture.h; 0: nothing */
};

/* Identifies `stream`, which may be NULL for the default stream of the current context, and its
 * device. GPUMEM_E_UNSUPPORTED while it captures; GPUMEM_E_NO_CONTEXT when that needs a current context and there is none; -EINVAL for a
 * handle that is no stream. */
int stream_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                    int *ret_ordinal);

/* The same for a stream that captures. Asked for its id, the driver loses the capture; while that lasts no other
 * stream has the handle, which therefore is the id, but for the per-thread default streams. */
int stream_identify_captured(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                             int *ret_ordinal);
uint64_t stream_captured_id(void *stream);

/* The context that the stream is of. GPUMEM_E_NO_CONTEXT: a default stream, and none is current. */
int stream_find_context(const struct cuda *cuda, void *stream, uint64_t *ret_context);

/* Tells streams of a process apart in two calls: ids are unique among all, but for those of default
 * streams, which are a context's. */
struct stream_mark {
        uint64_t scope; /* of a default stream: its context; see capture_look; else 0 */
        uint64_t id;
};

/* No stream has it. */
static const struct stream_mark stream_mark_none = {.scope = UINT64_MAX, .id = UINT64_MAX};

/* Default streams are not: what they are depends on who asks. */
static inline bool stream_is_created(const void *stream)
{
        return stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/* GPUMEM_E_UNSUPPORTED while it captures: then capture_look and capture_identify know it. */
static inline int stream_check(const struct cuda *cuda, void *stream)
{
        CUstreamCaptureStatus status;
        int r = CUDA_CALL(cuda, cuStreamIsCapturing, stream, &status);

        if (r)
                return r;
        return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : GPUMEM_E_UNSUPPORTED;
}

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

/* Waits for all work that was enqueued there before. */
int stream_synchronize(const struct cuda *cuda, void *stream);

/* Waits for all work of a context, with the calling thread's capture mode relaxed (driver/capture.h);
 * what other threads launch meanwhile waits too. The context is made current for the call; one that
 * has been destroyed has no work. */
int stream_synchronize_context(const struct cuda *cuda, uint64_t context);

/* Waits for all work of a context, or of none (0), and of the calling thread's current one, if any. */
int stream_synchronize_contexts(const struct cuda *cuda, uint64_t context);
