/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings: the work behind which an event was recorded, and when that was done.
 *
 * Life: a recording is counted. The event holds one count, and so does each operation that notes the time. Once an
 * event has it, only that time changes, and a holder of a count reads it without a lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/stream.h"

struct recording {
        unsigned refs;
        uint64_t passed_ns;         /* the last one's time, valid once all have passed; atomic */
        struct capture_place place; /* where it was recorded in a capture: then it has no moments */
        unsigned n_moments;
        struct moment moments[];
};

/* Records the end of the stream's work; the stream does not capture. ret_recording is never NULL on success. */
CUresult recording_of_stream(struct stream *stream, struct recording **ret_recording);

/* Records the end of the work of each stream of the context; none captures. With the emulator's lock held. A failure
 * leaves no visible change. */
CUresult recording_of_context(struct context *context, struct recording **ret_recording);

/* Records a place in the stream's capture; fails if it captures no more. */
CUresult recording_of_capture(struct stream *stream, struct recording **ret_recording);

/* NULL is legal. */
struct recording *recording_ref(struct recording *recording);
struct recording *recording_unref(struct recording *recording);

/* NULL is a recording that has passed. */
bool recording_has_passed(const struct recording *recording);
void recording_wait(const struct recording *recording);
