/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings: what an event was recorded behind, and when that was passed.
 *
 * Life: a recording is counted. The event holds one count, and so does each operation that notes the time.
 * Once an event has it, only that time changes, and the holder of a count reads it without a lock. */
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

/* The end of what the stream has, which does not capture. NULL is never given back with success. */
CUresult recording_of_stream(struct stream *stream, struct recording **ret_recording);

/* The end of what each stream of the context has left, none of which captures. With the emulator's lock
 * held. A failure leaves nothing behind that can be seen. */
CUresult recording_of_context(struct context *context, struct recording **ret_recording);

/* A place in the capture of the stream; fails if it captures no more. */
CUresult recording_of_capture(struct stream *stream, struct recording **ret_recording);

/* Of NULL, too. */
struct recording *recording_ref(struct recording *recording);
struct recording *recording_unref(struct recording *recording);

/* NULL is a recording that has passed. */
bool recording_has_passed(const struct recording *recording);
void recording_wait(const struct recording *recording);
